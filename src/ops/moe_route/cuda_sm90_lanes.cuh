// The experts of a token in the lanes of a warp, as the Hopper kernels of moe_route have them: sums
// over all of them, the largest of them, and their way to and from global memory.
#pragma once

#include "device/rows/element.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/moe_route/score_order.hpp"

namespace octet::sm90 {

inline constexpr int kRouteWarps = 4;  // of a block: a token each

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32); }

// A row of numbers of experts in global memory.
struct ExpertRow {
  void* data;
  std::int64_t first;  // element
  Dtype dtype;
};

// Numbers of experts from global memory into cells, and back.
__device__ __forceinline__ void load_cells(const ExpertRow& row, int experts, float* cells) {
  for (int i = lane_id(); i < experts; i += 32) {
    cells[score_cell(i)] = load_element(row.data, row.first + i, row.dtype);
  }
  __syncwarp();
}
__device__ __forceinline__ void store_cells(const ExpertRow& row, int experts, const float* cells) {
  for (int i = lane_id(); i < experts; i += 32) {
    store_element(row.data, row.first + i, row.dtype, cells[score_cell(i)]);
  }
}

// From cells into the lanes, and back. Beyond the last expert are zeros.
template <int kPer>
__device__ __forceinline__ void read_cells(const float* cells, int experts, float (&own)[kPer]) {
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int expert = lane_id() * kPer + j;
    own[j] = expert < experts ? cells[score_cell(expert)] : 0.0f;
  }
  __syncwarp();  // the cells may be written again
}
template <int kPer>
__device__ __forceinline__ void write_cells(const float (&own)[kPer], float* cells) {
#pragma unroll
  for (int j = 0; j < kPer; ++j) cells[score_cell(lane_id() * kPer + j)] = own[j];
  __syncwarp();
}

// The balanced tree of neighbours over all experts. Adding a zero turns -0 into 0.
template <int kPer>
__device__ __forceinline__ float sum_of_experts(const float (&own)[kPer]) {
  float sums[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) sums[j] = own[j];
#pragma unroll
  for (int step = 1; step < kPer; step *= 2) {
#pragma unroll
    for (int j = 0; j < kPer; j += 2 * step) sums[j] = __fadd_rn(sums[j], sums[j + step]);
  }
  return __fadd_rn(sum_of_lanes(sums[0]), 0.0f);
}

// A number for each of up to 64 choices: k and k + 32 in lane k.
struct PerChoice {
  float low, high;

  // The balanced tree of neighbours; numbers of choices that do not exist are 0.
  __device__ __forceinline__ float sum() const {
    return __fadd_rn(__fadd_rn(sum_of_lanes(low), sum_of_lanes(high)), 0.0f);
  }
};

template <int kPer>
__device__ __forceinline__ std::uint32_t largest_of(const std::uint32_t (&keys)[kPer]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int j = 0; j < kPer; ++j) largest = keys[j] > largest ? keys[j] : largest;
  return largest;
}

// Calls take(n, place) for the n-th largest key, n = 0 .. count - 1, ties by place; taken keys
// become 0. At least `count` keys are not 0. All lanes get the places.
template <int kPer, class Take>
__device__ __forceinline__ void take_largest(std::uint32_t (&keys)[kPer], int count,
                                             const Take& take) {
  std::uint32_t own = largest_of(keys);
  for (int n = 0; n < count; ++n) {
    const std::uint32_t largest = __reduce_max_sync(~0u, own);
    const int winner = __ffs(static_cast<int>(__ballot_sync(~0u, own == largest))) - 1;
    int place = 0;
    if (lane_id() == winner) {
      bool taken = false;
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        const bool here = !taken && keys[j] == largest;
        place = here ? lane_id() * kPer + j : place;
        keys[j] = here ? 0 : keys[j];
        taken = taken || here;
      }
      own = largest_of(keys);
    }
    take(n, __shfl_sync(~0u, place, winner));
  }
}

}  // namespace octet::sm90
