// d[M, N] (+)= a[M, K] b[N, K]^T for Hopper: FP8 operands with scales of blocks, rows or tensors, bf16 and f16.
//
// A persistent grid, one block per multiprocessor: one warpgroup loads, two multiply. A stage of the ring
// holds 128 bytes of the contraction: both operands of a tile and their scales. Each consumer runs waves of
// m64n128 (n64 and n32 in small tiles, n160 and n192 in tiles of as many columns): four wgmma steps give a slice,
// which is scaled and added to f32 accumulators (promoted). The wait for the next stage and the loads of its
// scales overlap the last wave of a stage. The tensor cores bound the loop: 1x128 . 128x128 adds one f32 operation
// per accumulator and slice, which they hide; 1x128 . 1x128 adds two, which they do not. In a cluster each block
// loads a part of the shared operand into all blocks. TMA fills what lies beyond M, N and K with zeros; small tiles
// skip rows beyond M. 16-bit results of large tiles leave while the next tile is multiplied.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/registers.cuh"
#include "ops/gemm/sm90/loads.cuh"
#include "ops/gemm/sm90/products.cuh"
#include "ops/gemm/sm90/stores.cuh"

#include <climits>

namespace octet::sm90 {

template <class C>
__device__ void multiply_tiles(std::uint32_t base, const Maps<C>& maps, const Params<C>& params) {
  Consumer<C> consumer(base);
  TileReader<C> tiles(consumer.base, params);
  if (tiles.valid(params)) consumer.begin();
#pragma unroll 1
  for (; tiles.valid(params); tiles.advance()) {
    multiply_tile(consumer, params, tiles);
    finish_tile(consumer, maps, params, tiles);
  }
  ptx::wait_stores_done();
}

// The same of every other tile: one consumer stores its tile while the other multiplies the next. Of 128x192 the
// accumulators leave so few registers that nothing but the phases is kept from tile to tile.
template <class C>
__device__ void multiply_every_other_tile(std::uint32_t base, const Maps<C>& maps,
                                          const Params<C>& params) {
  static_assert(kGroups<C> == Groups::none && C::value.promotion == Promotion::none);
  TileReader<C> tiles(base, params);
  std::uint32_t phases = 0;
  const auto leave_tile_out = [&] {
    phases ^= flipped_stages(C::value.stages, opaque(params.slices));
    tiles.advance();
  };
  if (consumer_warpgroup() == 1) {
    pass_turn();
    leave_tile_out();
  }
#pragma unroll 1
  while (tiles.valid(params)) {
    Consumer<C> consumer(base);
    consumer.phases = phases;
    await_turn();
    multiply_tile(consumer, params, tiles);
    finish_tile(consumer, maps, params, tiles);
    phases = consumer.phases;
    tiles.advance();
    leave_tile_out();
  }
  ptx::wait_stores_done();
}

// A barrier over the threads of the block, or of all blocks of its cluster.
template <class C>
__device__ __forceinline__ void sync_cluster_or_block() {
  if constexpr (C::value.cluster > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
}

// Fetches the maps while the kernel before may still run.
template <class C>
__device__ __forceinline__ void prefetch_maps(const Maps<C>& maps, Store store) {
  if (threadIdx.x != 128) return;
  ptx::prefetch_map(&maps.a.values);
  if constexpr (has_slice_scales(C::value)) ptx::prefetch_map(&maps.a.scales);
  ptx::prefetch_map(&maps.b.values);
  if constexpr (C::value.promotion == Promotion::one_by_one || kGroups<C> == Groups::contraction) {
    ptx::prefetch_map(&maps.b.scales);
  }
  if (stores_boxes(store)) ptx::prefetch_map(&maps.d);
}

// Where the shared memory of a block begins.
__device__ __forceinline__ std::uint32_t shared_base() {
  extern __shared__ std::uint8_t raw[];
  return (ptx::shared_address(raw) + 1023) & ~1023u;
}

// Barriers of `stages` stages: a stage is full after one arrival and its bytes, empty after one arrival per warp of
// the cluster. They lie in the same places for all configurations of as many consumers and blocks.
template <class C>
__device__ __forceinline__ void init_barriers(std::uint32_t base, int stages, Store store) {
  using Storage = SharedStorage<C>;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::barrier_init(Storage::full_at(base, stage), 1);
      ptx::barrier_init(Storage::empty_at(base, stage), C::value.cluster * 4 * readers(C::value));
    }
    if constexpr (is_staged(C::value)) {
      for (int consumer = 0; consumer < kConsumers; ++consumer) {
        for (int wave = 0; wave < kMostStagedWaves; ++wave) {
          ptx::barrier_init(Storage::staged_at(base, consumer, wave), 4);
        }
      }
      ptx::barrier_init(Storage::stored_at(base), 1);
    }
    if constexpr (stages_in_ring(C::value)) {
      // Nothing waits for results that do not stay in the ring.
      const int stored = store == Store::staged ? first_position<C>() : INT_MAX;
      for (int block = 0; block < kMostCluster; ++block) {
        ptx::store_shared(Storage::stored_before_at(base, block), stored);
      }
    }
    ptx::fence_barrier_init();
  }
  sync_cluster_or_block<C>();
}

// One warpgroup loads, the others multiply.
template <class C>
__device__ __forceinline__ void run_roles(std::uint32_t base, const Maps<C>& maps,
                                          const Params<C>& params) {
  static_assert(follows_plan<C>(), "SharedStorage and shared_plan differ");
  static_assert(shared_bytes(C::value) <= kSharedLimit, "the stages do not fit");
  if (threadIdx.x < 128) {
    ptx::shrink_registers<24>();
    if constexpr (is_staged(C::value)) {
      // A warp number that ptxas cannot derive from the thread's: it would share registers between the roles,
      // and spill those of the producer.
      const int warp = opaque(static_cast<int>(threadIdx.x / 32));
      if (warp == 1) {
        store_staged_tiles<C>(base, maps, params);
      } else if (warp == 0) {
        load_tiles<C>(opaque(base), maps, params);
      }
    } else {
      if (threadIdx.x < 32) load_tiles<C>(opaque(base), maps, params);
    }
  } else {
    ptx::grow_registers<240>();
    if (consumers(C::value) == kConsumers || consumer_warpgroup() == 0) {
      if constexpr (C::value.in_turn) {
        multiply_every_other_tile<C>(base, maps, params);
      } else {
        multiply_tiles<C>(base, maps, params);
      }
    }
    // Consumers of other blocks may still arrive on this block's barriers, so no block ends before them. The
    // cluster barrier does not wait for threads that have exited, so the producer takes no part in it.
    if constexpr (C::value.cluster > 1) ptx::cluster_sync();
  }
}

template <class C>
__device__ __forceinline__ void run_block(const Maps<C>& maps, const Params<C>& params) {
  const std::uint32_t base = shared_base();
  prefetch_maps<C>(maps, params.store);
  init_barriers<C>(base, C::value.stages, params.store);
  ptx::wait_for_earlier_kernels();
  run_roles<C>(base, maps, params);
}

template <class C>
__global__ __launch_bounds__(kThreads,
                             1) void gemm_kernel(const __grid_constant__ GemmMaps maps,
                                                 const __grid_constant__ Params<C> params) {
  run_block<C>(maps, params);
}

template <class C>
__global__ __cluster_dims__(C::value.cluster, 1, 1)
    __launch_bounds__(kThreads,
                      1) void gemm_cluster_kernel(const __grid_constant__ GemmMaps maps,
                                                  const __grid_constant__ Params<C> params) {
  run_block<C>(maps, params);
}

}  // namespace octet::sm90
