// The second kernel of moe_maps: the rows of the experts from the counts of all blocks, and the row
// of every slot (cuda_sm90_count.cuh has the plan).
#pragma once

#include "ops/moe_maps/cuda_sm90_count.cuh"

namespace octet::sm90 {

struct PlaceStorage {
  std::uint32_t wanted[kMaxGroups];   // slots of every expert
  std::uint32_t earlier[kMaxGroups];  // of them, those of earlier blocks
  std::uint32_t begin[kMaxGroups];    // rows of every expert
  std::uint32_t size[kMaxGroups];
  std::uint32_t totals[kScanWarps];
  std::int32_t dropped, cut;
  BadSlots bad;
  GroupTableStorage table;
};

// Several threads add up the counts of one expert where there are fewer experts than threads.
__device__ __forceinline__ void add_counts(const MapsParams& params, PlaceStorage& shared) {
  int columns = 1;
  while (columns < params.groups) columns *= 2;
  const auto thread = static_cast<int>(threadIdx.x);
  const int group = thread % columns;
  const int step = kScanThreads / columns;
  shared.wanted[thread] = shared.earlier[thread] = 0;
  __syncthreads();
  if (group < params.groups) {
    const std::int32_t* from = params.counts + group;
    std::uint32_t wanted = 0;
    std::uint32_t earlier = 0;
#pragma unroll 8
    for (int block = thread / columns; block < params.slots.blocks; block += step) {
      const auto count = static_cast<std::uint32_t>(from[std::int64_t{block} * params.groups]);
      wanted += count;
      earlier += block < static_cast<int>(blockIdx.x) ? count : 0;
    }
    atomicAdd(&shared.wanted[group], wanted);
    atomicAdd(&shared.earlier[group], earlier);
  }
  __syncthreads();
}

// The rows of the thread's expert. Returns those of all experts.
__device__ __forceinline__ std::uint32_t place_experts(const MapsParams& params,
                                                       PlaceStorage& shared, ExpertRows& own) {
  const bool exists = threadIdx.x < params.groups;
  const std::uint32_t kept = exists ? kept_slots(shared.wanted[threadIdx.x], params.capacity) : 0;
  const std::uint32_t through = scan_sums(kept, shared.totals);
  own = expert_rows(kept, through - kept, static_cast<std::uint32_t>(params.rows));
  shared.begin[threadIdx.x] = own.begin;
  shared.size[threadIdx.x] = own.size;
  __syncthreads();
  return shared.begin[kMaxGroups - 1] + shared.size[kMaxGroups - 1];
}

// Sizes, table and status: the work of the last block.
__device__ __forceinline__ void write_summary(const MapsParams& params, const ExpertRows& own,
                                              PlaceStorage& shared) {
  const bool exists = threadIdx.x < params.groups;
  if (exists) params.sizes[threadIdx.x] = static_cast<std::int32_t>(own.size);
  if (threadIdx.x == 0) {
    shared.dropped = shared.cut = 0;
    shared.bad = {0, params.slots.slots};
  }
  __syncthreads();
  if (exists) {
    atomicAdd(&shared.dropped, static_cast<std::int32_t>(shared.wanted[threadIdx.x] - own.kept));
    atomicAdd(&shared.cut, static_cast<std::int32_t>(own.kept - own.size));
  }
  if (static_cast<std::int32_t>(threadIdx.x) < params.slots.blocks) {
    const BadSlots bad = params.bad[threadIdx.x];
    atomicAdd(&shared.bad.count, bad.count);
    atomicMin(&shared.bad.first, bad.first);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    MoeMapsStatus status;
    status.top_k = static_cast<std::int32_t>(params.top_k.value);
    status.experts = params.experts;
    status.rows = params.rows;
    status.dropped = shared.dropped;
    status.cut = shared.cut;
    status.bad_indices = shared.bad.count;
    if (shared.bad.count > 0) {
      status.bad_slot = shared.bad.first;
      status.bad_index = index_of(params, shared.bad.first);
    }
    *params.status = status;
  }
  write_group_table({{}, params.table, params.groups, params.rows, GroupSizes::sizes}, own.size, 0,
                    shared.table);
}

// Counts the slots of every warp, then turns the counts into the ranks of the warps' first slots.
__device__ __forceinline__ void rank_warps(const MapsParams& params, const PlaceStorage& shared,
                                           std::uint32_t* ranks) {  // [warps, groups]
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  for (int i = static_cast<int>(threadIdx.x); i < kScanWarps * params.groups; i += kScanThreads) {
    ranks[i] = 0;
  }
  __syncthreads();
  std::uint32_t* own = ranks + warp * params.groups;
  const std::int32_t end = params.slots.end(block, warp);
  for (std::int32_t first = params.slots.begin(block, warp); first < end; first += 32) {
    const std::int32_t slot = first + static_cast<std::int32_t>(threadIdx.x % 32);
    const int group = slot < end ? group_of(params, index_of(params, slot)) : -1;
    const Peers peers(group);
    if (group >= 0 && peers.rank() == 0) own[group] += peers.count();
    __syncwarp();
  }
  __syncthreads();
  if (threadIdx.x < params.groups) {
    std::uint32_t rank = shared.earlier[threadIdx.x];
    for (int w = 0; w < kScanWarps; ++w) {
      const std::uint32_t count = ranks[w * params.groups + threadIdx.x];
      ranks[w * params.groups + threadIdx.x] = rank;
      rank += count;
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void place_slots(const MapsParams& params, const PlaceStorage& shared,
                                            std::uint32_t* ranks) {
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  std::uint32_t* own = ranks + warp * params.groups;
  const std::int32_t end = params.slots.end(block, warp);
  for (std::int32_t first = params.slots.begin(block, warp); first < end; first += 32) {
    const std::int32_t slot = first + static_cast<std::int32_t>(threadIdx.x % 32);
    const int group = slot < end ? group_of(params, index_of(params, slot)) : -1;
    const Peers peers(group);
    const std::uint32_t before = group >= 0 ? own[group] : 0;
    __syncwarp();  // all peers have read the counter
    if (group >= 0 && peers.rank() == 0) own[group] = before + peers.count();
    __syncwarp();
    if (slot >= end) continue;
    std::int32_t row = -1;
    if (group >= 0) {
      const std::uint32_t rank = before + peers.rank();
      if (rank < shared.size[group]) row = static_cast<std::int32_t>(shared.begin[group] + rank);
    }
    params.row_of[place_of(params, slot, params.row_of_pitch)] = row;
    if (row >= 0) params.source[row] = slot;
  }
}

static __global__ __launch_bounds__(kScanThreads) void place_slots_kernel(
    const __grid_constant__ MapsParams params) {
  extern __shared__ std::uint32_t ranks[];  // [warps, groups]
  __shared__ PlaceStorage shared;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  add_counts(params, shared);
  ExpertRows own{};
  const std::uint32_t grouped_rows = place_experts(params, shared, own);
  if (blockIdx.x == params.slots.blocks) {
    write_summary(params, own, shared);
    return;
  }
  rank_warps(params, shared, ranks);
  place_slots(params, shared, ranks);
  // Rows behind the last expert
  const std::int64_t stride = std::int64_t{params.slots.blocks} * kScanThreads;
  for (std::int64_t row = grouped_rows + std::int64_t{blockIdx.x} * kScanThreads + threadIdx.x;
       row < params.rows; row += stride) {
    params.source[row] = -1;
  }
}

}  // namespace octet::sm90
