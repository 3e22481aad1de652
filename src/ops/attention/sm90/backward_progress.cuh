// How the blocks of the backward grid get their tasks, and how they wait for each other: by counters in the
// workspace. One thread of a block calls these.
#pragma once

#include "device/ptx/counter.cuh"
#include "ops/attention/sm90/backward_storage.cuh"

namespace octet::attention {

// Blocks are numbered as they start, so whoever has a smaller number is running or done.
__device__ __forceinline__ BlockTask next_task(const BackwardParams& params) {
  const auto block = static_cast<std::int32_t>(atomicAdd(params.progress.started, 1u));
  const std::int32_t segment = segment_of(params.segment_ends, params.segments, block);
  const std::int32_t begin = segment == 0 ? 0 : params.segment_ends[segment - 1];
  const std::int32_t key_blocks =
      segment < params.segments - kLag ? params.chunks[segment].key_blocks : 0;
  const std::int32_t dq_blocks = segment >= kLag ? params.chunks[segment - kLag].dq_blocks : 0;
  return task_in_segment(segment, key_blocks, dq_blocks, block - begin);
}

__device__ __forceinline__ std::uint32_t* sums_counter(const BackwardParams& params,
                                                       const KeyTileWork& work) {
  return params.progress.sums + work.sums_place(params);
}

// Until the room of the chunk's dS is free, and the sums that the block takes up are there.
__device__ __forceinline__ void wait_for_room(const BackwardParams& params, const BlockTask& task,
                                              const KeyTileWork& work) {
  const std::int32_t chunk = params.first_chunk + task.chunk;
  if (task.chunk >= kSlots) {
    ptx::wait_for_count(params.progress.dq + chunk - kSlots,
                        kConsumers * params.chunks[task.chunk - kSlots].dq_blocks);
  }
  if (params.hands_on == HandsOn::by_block && work.share.any) {
    ptx::wait_for_count(sums_counter(params, work), kConsumers * work.chunk.turn);
  }
  if (params.hands_on == HandsOn::by_chunk && task.chunk > 0) {
    ptx::wait_for_count(params.progress.keys + chunk - 1,
                        kConsumers * params.chunks[task.chunk - 1].key_blocks);
  }
}

// Until the chunk's dS is there.
__device__ __forceinline__ void wait_for_ds(const BackwardParams& params, const BlockTask& task) {
  ptx::wait_for_count(params.progress.keys + params.first_chunk + task.chunk,
                      kConsumers * params.chunks[task.chunk].key_blocks);
}

}  // namespace octet::attention
