// d[M, N] (+)= a[M, K] b[N, K]^T on FP8 operands with block scales, for Hopper.
//
// A persistent grid of one block per multiprocessor: one warpgroup loads, two multiply. A stage of the ring
// is 128 of the contraction, the operands of a tile and their scales. Each consumer runs waves of m64n128
// (m64n64 and m64n32 in small tiles): four wgmma steps give a slice, which is promoted to f32 accumulators
// with the scales. The wait for the next stage and the loads of its scales lie under the last wave of a
// stage. Without block scales the loop is bound by the tensor cores; 1x128 . 128x128 adds one f32 operation
// per accumulator and slice, which they hide; 1x128 . 1x128 adds two, which they do not. Where blocks work
// in clusters, each loads a part of a stage's rows of a into all of them. Extents beyond M, N and K are
// zero: the copy engine fills them; but small tiles do not load the rows beyond M.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/dependent_launch.cuh"
#include "ops/gemm/sm90/loads.cuh"
#include "ops/gemm/sm90/products.cuh"
#include "ops/gemm/sm90/stores.cuh"

namespace octet::sm90 {

template <class C>
__device__ void multiply_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  Consumer<C> consumer(base);
  Tiles<C> tiles;
  if (tiles.left(params)) consumer.begin();
#pragma unroll 1
  for (; tiles.left(params); tiles.advance()) {
    multiply_tile(consumer, params, tiles.more(params));
    store_tile(consumer, maps, params, tiles.tile(params));
  }
  ptx::wait_stores_done();
}

// The threads of a block, or of all blocks of a cluster.
template <class C>
__device__ __forceinline__ void meet() {
  if constexpr (C::value.cluster > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
}

template <class C>
__device__ __forceinline__ void run_block(const GemmMaps& maps, const GemmParams& params) {
  using Storage = SharedStorage<C>;
  static_assert(follows_plan<C>(), "SharedStorage and shared_plan differ");
  static_assert(shared_bytes(C::value) <= kSharedLimit, "the stages do not fit");
  extern __shared__ std::uint8_t raw[];
  const std::uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u;

  // Barriers: a stage is full after one arrival and its bytes, empty after one arrival per warp of the
  // cluster.
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < C::value.stages; ++stage) {
      ptx::barrier_init(base + offsetof(Storage, full) + 8 * stage, 1);
      ptx::barrier_init(base + offsetof(Storage, empty) + 8 * stage,
                        C::value.cluster * 4 * consumers(C::value));
    }
    ptx::fence_barrier_init();
  }
  meet<C>();
  ptx::wait_for_earlier_kernels();

  // Roles
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 32) load_tiles<C>(opaque(base), maps, params);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    if (consumers(C::value) == kConsumers || consumer_warpgroup() == 0) {
      multiply_tiles<C>(base, maps, params);
    }
    // Another block's consumers may yet arrive in this one's shared memory. Threads that have ended are not
    // waited for: the producer's role has no part in it, and the two keep their registers apart.
    if constexpr (C::value.cluster > 1) ptx::cluster_sync();
  }
}

template <class C>
__global__ __launch_bounds__(kThreads,
                             1) void gemm_kernel(const __grid_constant__ GemmMaps maps,
                                                 const __grid_constant__ GemmParams params) {
  run_block<C>(maps, params);
}

template <class C>
__global__ __cluster_dims__(C::value.cluster, 1, 1)
    __launch_bounds__(kThreads,
                      1) void gemm_cluster_kernel(const __grid_constant__ GemmMaps maps,
                                                  const __grid_constant__ GemmParams params) {
  run_block<C>(maps, params);
}

}  // namespace octet::sm90
