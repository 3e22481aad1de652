// A key block of the backward pass: dk and dv of 128 keys of one kv head, and dS of every tile that has something
// visible.
//
// One block per key tile: one warpgroup loads, two hold 64 keys each and sum over the query heads of the group
// and over the queries, in that order. k and v are loaded once; q, dout, lse and delta go by in a ring. The
// consumers share nothing but the ring. The tensor cores bound the loop: four products of 2 * 128 * queries *
// dim operations a step. A chunk may end inside a sequence: then f32 sums are left for the next one.
#pragma once

#include "device/constant.hpp"
#include "ops/attention/sm90/backward/consumer.cuh"
#include "ops/attention/sm90/backward/loads.cuh"
#include "ops/attention/sm90/backward/progress.cuh"

namespace octet::attention {

// Where a thread's sums lie that a turn leaves: one float per register and thread.
template <class C>
__device__ __forceinline__ std::int64_t sums_at(const BackwardParams& params,
                                                const KeyTileWork& work, int turn) {
  constexpr int kRegisters = (C::value.dim_qk + C::value.dim_v) / 2;
  const std::int64_t block = work.sums_place(params);
  return turn % params.handed.buffers * params.handed.buffer_floats +
         (block * kConsumers + consumer_index()) * kRegisters * 128 + threadIdx.x % 128;
}

template <class C>
__device__ __forceinline__ void begin_sums(KeyConsumer<C>& consumer, const BackwardParams& params,
                                           const KeyTileWork& work) {
  constexpr BackwardConfig c = C::value;
  if (work.share.begins) {
#pragma unroll
    for (float& value : consumer.dk) value = 0;
#pragma unroll
    for (float& value : consumer.dv) value = 0;
    return;
  }
  const float* from = params.handed.sums + sums_at<C>(params, work, work.chunk.turn - 1);
#pragma unroll
  for (int i = 0; i < c.dim_qk / 2; ++i) consumer.dk[i] = from[i * 128];
#pragma unroll
  for (int i = 0; i < c.dim_v / 2; ++i) consumer.dv[i] = from[(c.dim_qk / 2 + i) * 128];
}

template <class C>
__device__ __forceinline__ void leave_sums(const KeyConsumer<C>& consumer,
                                           const BackwardParams& params, const KeyTileWork& work) {
  constexpr BackwardConfig c = C::value;
  float* to = params.handed.sums + sums_at<C>(params, work, work.chunk.turn);
#pragma unroll
  for (int i = 0; i < c.dim_qk / 2; ++i) to[i * 128] = consumer.dk[i];
#pragma unroll
  for (int i = 0; i < c.dim_v / 2; ++i) to[(c.dim_qk / 2 + i) * 128] = consumer.dv[i];
}

// Rounds 64 rows x 64 columns, panel `panel` of a wave, into a box.
template <Dtype kDtype, int kCount>
__device__ __forceinline__ void store_panel(const float (&values)[kCount], int panel, float factor,
                                            std::uint32_t box) {
  const int lane = ptx::lane_index(), warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // 16 columns
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int at = panel * 32 + i * 8 + j * 2;
      words[j] = pack<kDtype>(values[at] * factor, values[at + 1] * factor);
    }
    ptx::store_matrices(box + swizzle128(warp * 16 + lane % 16, i * 2 + lane / 16), words);
  }
}

template <class C>
__device__ __forceinline__ void store_gradients(const KeyConsumer<C>& consumer,
                                                const BackwardMaps& maps,
                                                const BackwardParams& params,
                                                const KeyTileWork& work) {
  constexpr BackwardConfig c = C::value;
  using Storage = BackwardStorage<C>;
  const int rows_before = consumer.consumer * kWaveRows;
  const std::uint32_t k = consumer.base + offsetof(Storage, k) + rows_before * kRowBytes;
  const std::uint32_t v = consumer.base + offsetof(Storage, v) + rows_before * kRowBytes;
  // Only this consumer has read these rows of k and v, and all its warps are through (count_consumer).
#pragma unroll
  for (int panel = 0; panel < Storage::kPanelsQk; ++panel) {
    store_panel<c.dtype>(consumer.dk, panel, params.shape.scale, k + panel * sizeof(Storage::k[0]));
  }
#pragma unroll
  for (int panel = 0; panel < Storage::kPanelsV; ++panel) {
    store_panel<c.dtype>(consumer.dv, panel, 1, v + panel * sizeof(Storage::v[0]));
  }
  ptx::fence_shared_writes();
  consumer_sync(consumer.consumer);
  if (threadIdx.x % 128 < 32 && ptx::elect_lane()) {
    const HeadPlace at(params.shape.packed, work.sequence, work.entry.k_begin, work.entry.keys,
                       work.head);
    const int row = work.tile * kTile + rows_before;
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsQk; ++panel) {
      at.store(maps.dk, k + panel * sizeof(Storage::k[0]), panel * 64, row);
    }
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsV; ++panel) {
      at.store(maps.dv, v + panel * sizeof(Storage::v[0]), panel * 64, row);
    }
    ptx::commit_stores();
  }
}

// dS and the sums that were left are complete.
template <class C>
__device__ __forceinline__ void count_consumer(const KeyConsumer<C>& consumer,
                                               const BackwardParams& params,
                                               const KeyTileWork& work) {
  ptx::fence_global_for_copies();
  consumer_sync(consumer.consumer);
  if (threadIdx.x % 128 != 0) return;
  ptx::add_to_count(params.progress.keys + work.number, 1);
  // Dense blocks take turns even where a sequence ends.
  if (params.handed.buffers == 1 || (params.handed.buffers > 1 && !work.share.ends)) {
    ptx::set_count(turn_of_sums(params, work, work.chunk.turn) + consumer.consumer,
                   work.chunk.turn + 1);
  }
}

template <class C>
__device__ __forceinline__ void sum_steps(std::uint32_t base, const BackwardMaps& maps,
                                          const BackwardParams& params, const KeyTileWork& work) {
  KeyConsumer<C> consumer(base);
  begin_sums(consumer, params, work);
  if (work.steps > 0) ptx::barrier_wait(base + offsetof(BackwardStorage<C>, kv_full), 0);
#pragma unroll 1
  for (int left = opaque(work.steps); left > 0; --left) consumer.step(params, work);
  if (!work.share.ends) leave_sums(consumer, params, work);
  count_consumer(consumer, params, work);
  if (work.share.ends) store_gradients(consumer, maps, params, work);
  ptx::wait_stores_done();
}

template <class C>
__device__ __forceinline__ void run_keys(std::uint32_t base, KeyTileWork& work,
                                         const BackwardMaps& maps, const BackwardParams& params,
                                         const BlockTask& task) {
  using Storage = BackwardStorage<C>;
  static_assert(sizeof(Storage) + 1024 <= kSharedLimit, "the stages do not fit");
  // Barriers: full after one arrival and the bytes, empty after one arrival per consumer warp.
  if (threadIdx.x == 0) {
    ptx::barrier_init(base + offsetof(Storage, kv_full), 1);
    for (int stage = 0; stage < C::value.stages; ++stage) {
      ptx::barrier_init(base + offsetof(Storage, q_full) + 8 * stage, 1);
      ptx::barrier_init(base + offsetof(Storage, dout_full) + 8 * stage, 1);
      ptx::barrier_init(base + offsetof(Storage, q_empty) + 8 * stage, 4 * kConsumers);
      ptx::barrier_init(base + offsetof(Storage, dout_empty) + 8 * stage, 4 * kConsumers);
    }
    ptx::fence_barrier_init();
    work.find(params, task, C::value.queries);
    wait_for_room(params, task, work);
    if (!work.share.any) ptx::add_to_count(params.progress.keys + work.number, kConsumers);
  }
  __syncthreads();
  if (!work.share.any) return;

  // Roles
  if (threadIdx.x < 128) {
    ptx::shrink_registers<24>();
    if (threadIdx.x < 32 && work.steps > 0 && ptx::elect_lane()) {
      const StepLoader<C> loader(base, maps, params, work);
      loader.load_keys();
      loader.load_steps();
    }
  } else {
    ptx::grow_registers<240>();
    sum_steps<C>(base, maps, params, work);
  }
}

}  // namespace octet::attention
