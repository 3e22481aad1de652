// softmax(scale q k^T, masked) v for every head, for Hopper: bf16 or f16 in, f32 inside.
//
// A persistent grid, one block per multiprocessor. Warp 0 loads a tile of queries and, block by block, keys
// and values into rings; two or three consumer warpgroups of 64 queries each multiply and have the softmax in
// registers; a warp per consumer stores its results by TMA while it starts on the next tile. Blocks of keys
// run from the last to the first, those that need a mask in a loop of their own. Exponentials (16 per clock)
// and tensor cores bound it: 1024 clocks against 2048 per 128 x 128 scores at heads of 128.
// TMA fills rows behind a sequence and columns behind a head with zeros, and does not store them.
#pragma once

#include "ops/attention/sm90/forward/loads.cuh"
#include "ops/attention/sm90/forward/stores.cuh"

namespace octet::attention {

// A barrier over the threads of one consumer.
__device__ __forceinline__ void sync_consumer(int index) {
  if (index == 0) {
    ptx::named_barrier_sync<1, 128>();
  } else if (index == 1) {
    ptx::named_barrier_sync<2, 128>();
  } else {
    ptx::named_barrier_sync<3, 128>();
  }
}

// In the sequence: the upper of the two rows whose accumulators this thread has.
__device__ __forceinline__ std::int32_t first_row_of_thread(const Work& work, int consumer) {
  return work.row + consumer * kConsumerRows +
         static_cast<std::int32_t>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
}

template <class C>
__device__ void multiply_tiles(std::uint32_t base, const ForwardParams& params) {
  constexpr Sm90AttentionForwardConfig c = C::value;
  using Storage = ForwardStorage<C>;
  const int index = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128) - 1, 0);
  Consumer<C> consumer(__shfl_sync(~0u, base, 0), index);
  RingPlace<c.query_slots> slot;
#pragma unroll 1
  for (;; slot.advance()) {
    ptx::barrier_wait(Storage::q_full_at(consumer.base, slot.stage), slot.parity);
    const Work loaded = get_work(Storage::work_at(consumer.base, slot.stage));
    if (loaded.sequence == kNoWork) break;
    if (params.negate) {
      consumer.negate_queries(slot.stage);
      ptx::fence_shared_writes();
      sync_consumer(index);
    }
    consumer.multiply(params, loaded, slot.stage, first_row_of_thread(loaded, index));

    // Results. The description is read again: its registers are needed in between.
    const Work work = get_work(Storage::work_at(consumer.base, slot.stage));
    const std::int32_t first_row = first_row_of_thread(work, index);
    const RowResults results = finish_rows(consumer, params, work);
    store_lse<C>(params, work, first_row, results);
    if (params.out != nullptr) {
      store_f32(consumer, params, work, first_row, results);
    } else {
      sync_consumer(index);  // all warps have read their queries
      leave_results(consumer, slot.stage, results);
      ptx::fence_shared_writes();
    }
    __syncwarp();
    if (ptx::elect_lane()) {
      ptx::barrier_arrive(Storage::out_full_at(consumer.base, slot.stage, index));
    }
  }
}

template <class C>
__global__ __launch_bounds__(threads(C::value), 1) void attention_forward_kernel(
    const __grid_constant__ ForwardMaps maps, const __grid_constant__ ForwardParams params) {
  constexpr Sm90AttentionForwardConfig c = C::value;
  using Storage = ForwardStorage<C>;
  static_assert(follows_plan<C>(), "ForwardStorage and shared_plan differ");
  static_assert(shared_bytes(c) <= kSharedLimit, "the stages do not fit");
  static_assert(c.dim_v <= c.dim_qk, "results lie where the queries were");
  extern __shared__ std::uint8_t raw[];
  const std::uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u;

  // Barriers: keys and values are released by the warps of all consumers, queries by those who store.
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < c.query_slots; ++slot) {
      ptx::barrier_init(Storage::q_full_at(base, slot), 1);
      ptx::barrier_init(Storage::q_empty_at(base, slot), consumers(c));
      for (int i = 0; i < consumers(c); ++i) {
        ptx::barrier_init(Storage::out_full_at(base, slot, i), 4);
      }
    }
    for (int stage = 0; stage < c.stages; ++stage) {
      ptx::barrier_init(Storage::k_full_at(base, stage), 1);
      ptx::barrier_init(Storage::v_full_at(base, stage), 1);
      ptx::barrier_init(Storage::k_empty_at(base, stage), 4 * consumers(c));
      ptx::barrier_init(Storage::v_empty_at(base, stage), 4 * consumers(c));
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::wait_for_earlier_kernels();

  // Roles
  if (threadIdx.x < 128) {
    ptx::shrink_registers<loader_registers(c)>();
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
    if (!ptx::elect_lane()) return;
    if (warp == 0) {
      Loader<C>(base, maps, params).run();
    } else if (warp <= consumers(c)) {
      store_results<C>(base, maps, params, warp - 1);
    }
  } else {
    ptx::grow_registers<consumer_registers(c)>();
    multiply_tiles<C>(base, params);
  }
}

}  // namespace octet::attention
