// How the blocks of the backward grid get their tasks, and how they wait for each other: by counters in the
// workspace. One thread of a block calls these.
#pragma once

#include "device/ptx/counter.cuh"
#include "ops/attention/sm90/backward/storage.cuh"

namespace octet::attention {

// Blocks are numbered as they start, so whoever has a smaller number is running or done. Packed grids have more
// blocks than tasks: those behind the last get chunk -1.
__device__ __forceinline__ BlockTask next_task(const BackwardParams& params) {
  const auto block = static_cast<std::int32_t>(atomicAdd(params.progress.started, 1u));
  const bool packed = params.shape.packed;
  const std::int32_t* ends = packed ? params.tables.segment_ends : params.segment_ends;
  const std::int32_t segments = packed ? *params.tables.segments : params.segments;
  if (block >= ends[segments - 1]) return {-1, 0, false};
  const std::int32_t segment = segment_of(ends, segments, block);
  const std::int32_t begin = segment == 0 ? 0 : ends[segment - 1];
  const std::int32_t key_blocks = segment < segments - kLag ? params.chunk(segment).key_blocks : 0;
  const std::int32_t dq_blocks = segment >= kLag ? params.chunk(segment - kLag).dq_blocks : 0;
  return task_in_segment(segment, key_blocks, dq_blocks, block - begin);
}

// Which turn has left sums where turn `turn` leaves those of the block: one word per consumer.
__device__ __forceinline__ std::uint32_t* turn_of_sums(const BackwardParams& params,
                                                       const KeyTileWork& work, int turn) {
  return params.progress.sums +
         (turn % params.handed.buffers * params.handed.places + work.sums_place(params)) *
             kConsumers;
}

__device__ __forceinline__ void wait_for_keys(const BackwardParams& params, int chunk) {
  ptx::wait_for_count(params.progress.keys + params.first_chunk + chunk,
                      kConsumers * params.chunk(chunk).key_blocks);
}

// Until the room of the chunk's dS is free, and the place of its sums.
__device__ __forceinline__ void wait_for_room(const BackwardParams& params, const BlockTask& task,
                                              const KeyTileWork& work) {
  if (task.chunk >= kSlots) {
    const std::int32_t before = task.chunk - kSlots;
    ptx::wait_for_count(params.progress.dq + params.first_chunk + before,
                        kConsumers * params.chunk(before).dq_blocks);
  }
  const HandedSums& handed = params.handed;
  if (handed.buffers == 0 || !work.share.any) return;
  const int turn = work.chunk.turn;
  if (turn > 0 && (handed.buffers == 1 || !work.share.begins)) {
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      ptx::wait_for_count(turn_of_sums(params, work, turn - 1) + consumer, turn);
    }
  }
  // Two turns before, the sums of the buffer were taken up.
  const std::int32_t before = task.chunk - 2 * handed.turns;
  if (handed.buffers == kPackedSums && !work.share.ends && before >= 0) {
    wait_for_keys(params, before);
  }
}

}  // namespace octet::attention
