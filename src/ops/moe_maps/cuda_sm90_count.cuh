// moe_maps on Hopper: a stable counting sort of the slots in two kernels.
//
//   count   every block counts its slots by expert, and the indices that are no expert
//   place   every block adds up the counts of all blocks: the rows of each expert, and how many of
//           them earlier blocks take. Its warps then walk their slots in order. One block more
//           writes sizes, status and group table.
//
// The order of slots is that of blocks, warps, rounds of 32 and lanes. A lane's rank among equal
// experts of its round comes from a ballot; shared counters of each warp carry it from round to
// round. So no row depends on timing: atomics only add integers whose order does not matter.
// Bound by latency: 1 MB for 65536 slots.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/group_table/cuda_sm90_block.cuh"
#include "ops/moe_maps/problem.hpp"
#include "ops/moe_maps/slot_blocks.hpp"

namespace octet::sm90 {

static_assert(SlotBlocks::kWarps == kScanWarps);

struct MapsParams {
  Integers indices;  // [tokens, top_k]
  std::int64_t indices_pitch;
  std::int32_t* row_of;  // [tokens, top_k]
  std::int64_t row_of_pitch;
  std::int32_t* source;   // [rows]
  std::int32_t* sizes;    // [groups]
  std::int32_t* table;    // [group_table_words(groups, rows)]
  MoeMapsStatus* status;  // [1]
  std::int32_t* counts;   // [blocks, groups], workspace
  BadSlots* bad;          // [blocks], workspace
  std::int64_t experts;
  std::int64_t first_expert;
  std::int32_t groups;
  std::int32_t rows;
  std::uint32_t capacity;  // at least the slots, if there is none
  Divisor top_k{1};
  SlotBlocks slots{0};
};

// The place of a slot in a matrix [tokens, top_k].
__device__ __forceinline__ std::int64_t place_of(const MapsParams& params, std::int32_t slot,
                                                 std::int64_t pitch) {
  const int token = params.top_k.quotient(slot);
  return token * pitch + (slot - token * static_cast<std::int32_t>(params.top_k.value));
}

__device__ __forceinline__ std::int64_t index_of(const MapsParams& params, std::int32_t slot) {
  return params.indices[place_of(params, slot, params.indices_pitch)];
}

// -1: the expert is not here.
__device__ __forceinline__ int group_of(const MapsParams& params, std::int64_t expert) {
  const bool here = expert >= params.first_expert && expert < params.first_expert + params.groups;
  return here ? static_cast<int>(expert - params.first_expert) : -1;
}

// The lanes of the warp that have the same group.
struct Peers {
  unsigned lanes;

  __device__ explicit Peers(int group) : lanes(__match_any_sync(~0u, group)) {}
  __device__ int count() const { return __popc(lanes); }
  // How many of them are before this lane.
  __device__ int rank() const { return __popc(lanes & ((1u << (threadIdx.x % 32)) - 1)); }
};

struct CountStorage {
  std::int32_t counts[kMaxGroups];
  BadSlots bad;
};

static __global__ __launch_bounds__(kScanThreads) void count_slots_kernel(
    const __grid_constant__ MapsParams params) {
  __shared__ CountStorage shared;
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  shared.counts[threadIdx.x] = 0;
  if (threadIdx.x == 0) shared.bad = {0, params.slots.slots};
  __syncthreads();
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const std::int32_t end = params.slots.end(block, warp);
  for (std::int32_t first = params.slots.begin(block, warp); first < end; first += 32) {
    const std::int32_t slot = first + static_cast<std::int32_t>(threadIdx.x % 32);
    const std::int64_t expert = slot < end ? index_of(params, slot) : -1;
    const int group = group_of(params, expert);
    const Peers peers(group);
    if (group >= 0 && peers.rank() == 0) atomicAdd(&shared.counts[group], peers.count());
    if (expert < -1 || expert >= params.experts) {
      atomicAdd(&shared.bad.count, 1);
      atomicMin(&shared.bad.first, slot);
    }
  }
  __syncthreads();
  if (threadIdx.x < params.groups) {
    params.counts[std::int64_t{block} * params.groups + threadIdx.x] = shared.counts[threadIdx.x];
  }
  if (threadIdx.x == 0) params.bad[block] = shared.bad;
}

}  // namespace octet::sm90
