// moe_route forward on Hopper: a warp per token, its experts in the lanes.
//
//   scores   softmax or sigmoid, in registers
//   groups   a lane finds the best experts of a group in shared memory; then the best groups
//   choice   the largest key of all lanes, top_k times: one reduction of the warp each
//   weights  a lane per choice
//
// Bound by instructions: 20 MB for 8192 tokens of 256 experts.
#pragma once

#include "core/exp_of_minus.hpp"
#include "device/ptx/barrier.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/moe_route/cuda_sm90_lanes.cuh"
#include "ops/moe_route/problem.hpp"

namespace octet::sm90 {

struct RouteForwardParams {
  const void* logits;  // [tokens, experts]
  std::int64_t logits_pitch;
  Dtype dtype;
  const float* bias;      // [experts], or null
  std::int32_t* indices;  // [tokens, top_k]
  std::int64_t indices_pitch;
  float* weights;  // [tokens, top_k]
  std::int64_t weights_pitch;
  float* scores;  // [tokens, experts], or null
  std::int64_t scores_pitch;
  std::int64_t tokens;
  int experts;
  int top_k;
  int expert_groups;
  int top_groups;
  Divisor group_length{1};
  bool softmax;   // else sigmoid
  bool best_two;  // score of a group: the sum of its best two, else its best
  bool normalize;
  float scale;
};

template <int kPer>
struct RouteCells {
  float experts[score_cells(kPer)];
  float groups[score_cells(kPer)];
};

// Logits to scores. Zeros beyond the last expert.
template <int kPer>
__device__ __forceinline__ void score_experts(const RouteForwardParams& params,
                                              float (&own)[kPer]) {
  const auto exists = [&](int j) { return lane_id() * kPer + j < params.experts; };
  if (!params.softmax) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      own[j] = exists(j) ? __fdiv_rn(1.0f, __fadd_rn(1.0f, exp_of_minus(own[j]))) : 0.0f;
    }
    return;
  }
  std::uint32_t key = 0;
#pragma unroll
  for (int j = 0; j < kPer; ++j) key = exists(j) ? max(key, score_key(own[j])) : key;
  const float largest = score_of_key(__reduce_max_sync(~0u, key));
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    own[j] = exists(j) ? exp_of_minus(__fsub_rn(largest, own[j])) : 0.0f;
  }
  const float sum = sum_of_experts(own);
#pragma unroll
  for (int j = 0; j < kPer; ++j) own[j] = exists(j) ? __fdiv_rn(own[j], sum) : 0.0f;
}

// The score of a group from the biased scores of its experts.
__device__ __forceinline__ float score_group(const RouteForwardParams& params, const float* biased,
                                             int group) {
  const auto length = static_cast<int>(params.group_length.value);
  std::uint32_t best = 0;
  std::uint32_t second = score_key(-INFINITY);
  for (int i = group * length; i < (group + 1) * length; ++i) {
    const std::uint32_t key = score_key(biased[score_cell(i)]);
    if (key > best) {
      second = best == 0 ? second : best;
      best = key;
    } else {
      second = max(second, key);
    }
  }
  const float score = score_of_key(best);
  return params.best_two ? __fadd_rn(score, score_of_key(second)) : score;
}

// Keys of experts outside of the best groups become 0.
template <int kPer>
__device__ __forceinline__ void keep_best_groups(const RouteForwardParams& params,
                                                 const float (&biased)[kPer],
                                                 RouteCells<kPer>& cells,
                                                 std::uint32_t (&keys)[kPer]) {
  write_cells(biased, cells.experts);
  for (int group = lane_id(); group < params.expert_groups; group += 32) {
    cells.groups[score_cell(group)] = score_group(params, cells.experts, group);
  }
  __syncwarp();
  float scores[kPer];
  read_cells(cells.groups, params.expert_groups, scores);
  std::uint32_t group_keys[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const bool exists = lane_id() * kPer + j < params.expert_groups;
    group_keys[j] = exists ? score_key(scores[j]) : 0;
    scores[j] = 0;
  }
  write_cells(scores, cells.groups);  // now: whether a group is among the best
  take_largest(group_keys, params.top_groups, [&](int, int group) {
    if (lane_id() == 0) cells.groups[score_cell(group)] = 1;
  });
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int expert = lane_id() * kPer + j;
    if (expert >= params.experts) continue;
    if (cells.groups[score_cell(params.group_length.quotient(expert))] == 0) keys[j] = 0;
  }
}

// The chosen experts of a token and their weights. `scores`: cells.
__device__ __forceinline__ void write_choice(const RouteForwardParams& params, std::int64_t token,
                                             const float* scores, int low, int high) {
  const int k = lane_id();
  const bool has_low = k < params.top_k;
  const bool has_high = k + 32 < params.top_k;
  const PerChoice chosen{has_low ? scores[score_cell(low)] : 0.0f,
                         has_high ? scores[score_cell(high)] : 0.0f};
  const float divisor = __fadd_rn(chosen.sum(), kWeightSumEps);
  const auto write = [&](int at, int expert, float score) {
    const float share = params.normalize ? __fdiv_rn(score, divisor) : score;
    params.indices[token * params.indices_pitch + at] = expert;
    params.weights[token * params.weights_pitch + at] = __fmul_rn(share, params.scale);
  };
  if (has_low) write(k, low, chosen.low);
  if (has_high) write(k + 32, high, chosen.high);
}

// kPer: experts per lane.
template <int kPer>
__global__ __launch_bounds__(32 * kRouteWarps) void route_forward_kernel(
    const __grid_constant__ RouteForwardParams params) {
  __shared__ RouteCells<kPer> shared[kRouteWarps];
  RouteCells<kPer>& cells = shared[threadIdx.x / 32];
  const std::int64_t token = std::int64_t{blockIdx.x} * kRouteWarps + threadIdx.x / 32;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (token >= params.tokens) return;

  float scores[kPer];
  load_cells({const_cast<void*>(params.logits), token * params.logits_pitch, params.dtype},
             params.experts, cells.experts);
  read_cells(cells.experts, params.experts, scores);
  score_experts(params, scores);

  float biased[kPer];
  std::uint32_t keys[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int expert = lane_id() * kPer + j;
    const bool exists = expert < params.experts;
    biased[j] = scores[j];
    if (params.bias != nullptr && exists) biased[j] = __fadd_rn(scores[j], params.bias[expert]);
    keys[j] = exists ? score_key(biased[j]) : 0;
  }
  if (params.expert_groups > 1) keep_best_groups(params, biased, cells, keys);
  int low = 0;
  int high = 0;
  take_largest(keys, params.top_k, [&](int n, int expert) {
    if (lane_id() == n) low = expert;
    if (lane_id() + 32 == n) high = expert;
  });

  write_cells(scores, cells.experts);
  write_choice(params, token, cells.experts, low, high);
  if (params.scores == nullptr) return;
  store_cells({params.scores, token * params.scores_pitch, Dtype::f32}, params.experts,
              cells.experts);
}

}  // namespace octet::sm90
