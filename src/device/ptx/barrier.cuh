// Synchronisation, one PTX instruction behind each name: mbarriers in shared memory, and the
// kernels before and after this one in the stream.
#pragma once

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Initialised barriers become visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// True in exactly one lane; all lanes of the warp must call it.
__device__ __forceinline__ bool elect_lane() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred here;\n"
      "elect.sync _|here, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, here;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// Returns once the phase of this parity has completed.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A barrier over the `threads` of some warps of the block. Barrier 0 is that of __syncthreads(). The id is a
// constant: for one in a register ptxas reserves all sixteen.
template <int kBarrier, int kThreads>
__device__ __forceinline__ void named_barrier_sync() {
  static_assert(kBarrier > 0 && kBarrier < 16 && kThreads % 32 == 0);
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
// A barrier of the block by its number, 1 to 15, over `threads` threads: some arrive, others wait for all.
__device__ __forceinline__ void numbered_barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void numbered_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// A kernel may start while the one before it in the stream still drains (device/cuda/launch.hpp).
//
// Returns once all earlier kernels have ended and their writes are visible. A kernel must not read
// or write global memory before it.
__device__ __forceinline__ void wait_for_earlier_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the next kernel of the stream be loaded onto the device. It still waits for this one to end.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace octet::ptx
