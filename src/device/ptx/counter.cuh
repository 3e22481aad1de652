// Counters in global memory by which the blocks of a grid wait for each other's results.
#pragma once

#include <cstdint>

namespace octet::ptx {

// What this thread has written, and what others of its block had written before a barrier that both passed, is visible
// to who has waited for the count.
__device__ __forceinline__ void add_to_count(std::uint32_t* counter, std::uint32_t count) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(count) : "memory");
}

// The same for a count that only one thread changes.
__device__ __forceinline__ void set_count(std::uint32_t* counter, std::uint32_t count) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(count) : "memory");
}

__device__ __forceinline__ void wait_for_count(const std::uint32_t* counter, std::uint32_t count) {
  std::uint32_t now;
  while (true) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    if (now >= count) return;
    __nanosleep(64);
  }
}

// Between stores to global memory and bulk copies that read it: in the thread that stored, before it counts, and
// in the one that copies, after it has waited.
__device__ __forceinline__ void fence_global_for_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace octet::ptx
