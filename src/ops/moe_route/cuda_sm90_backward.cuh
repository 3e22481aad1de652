// moe_route backward on Hopper: a warp per token, its experts in the lanes.
//
// The gradients of the weights reach dscore in the order of k, so that even indices that repeat
// give the bits of the CPU. Bound by instructions, like forward.
#pragma once

#include "device/ptx/barrier.cuh"
#include "ops/moe_route/cuda_sm90_lanes.cuh"
#include "ops/moe_route/problem.hpp"

namespace octet::sm90 {

struct RouteBackwardParams {
  const float* scores;  // [tokens, experts]
  std::int64_t scores_pitch;
  const std::int32_t* indices;  // [tokens, top_k]
  std::int64_t indices_pitch;
  const float* dweights;  // [tokens, top_k]
  std::int64_t dweights_pitch;
  const float* dscores;  // [tokens, experts], or null
  std::int64_t dscores_pitch;
  void* dlogits;  // [tokens, experts]
  std::int64_t dlogits_pitch;
  Dtype dtype;
  std::int64_t tokens;
  int experts;
  int top_k;
  bool softmax;  // else sigmoid
  bool normalize;
  float scale;
};

// One choice of a token: its expert, or -1, its score, and the gradient of its weight.
struct ScoredChoice {
  int expert = -1;
  float score = 0;
  float dweight = 0;

  __device__ ScoredChoice(const RouteBackwardParams& params, std::int64_t token, int k,
                          const float* scores) {
    if (k >= params.top_k) return;
    const int index = params.indices[token * params.indices_pitch + k];
    if (index < 0 || index >= params.experts) return;
    expert = index;
    score = scores[score_cell(index)];
    dweight = params.dweights[token * params.dweights_pitch + k];
  }
  __device__ float product() const { return __fmul_rn(dweight, score); }
};

// Adds the gradients that arrive through the weights. `scores`: cells.
template <int kPer>
__device__ __forceinline__ void add_weight_gradients(const RouteBackwardParams& params,
                                                     std::int64_t token, const float* scores,
                                                     float (&dscore)[kPer]) {
  const ScoredChoice low(params, token, lane_id(), scores);
  const ScoredChoice high(params, token, lane_id() + 32, scores);
  const float sum = PerChoice{low.score, high.score}.sum();
  const float divisor = __fadd_rn(sum, kWeightSumEps);
  const float mean = __fdiv_rn(PerChoice{low.product(), high.product()}.sum(), divisor);
  const auto gradient = [&](const ScoredChoice& choice) {
    const float ds =
        params.normalize ? __fdiv_rn(__fsub_rn(choice.dweight, mean), divisor) : choice.dweight;
    return __fmul_rn(ds, params.scale);
  };
  const float low_ds = gradient(low);
  const float high_ds = gradient(high);
  for (int k = 0; k < params.top_k; ++k) {
    const int expert = __shfl_sync(~0u, k < 32 ? low.expert : high.expert, k % 32);
    const float ds = __shfl_sync(~0u, k < 32 ? low_ds : high_ds, k % 32);
    const int place = expert - lane_id() * kPer;  // in this lane, or outside of it
    if (expert < 0) continue;
#pragma unroll
    for (int j = 0; j < kPer; ++j) dscore[j] = place == j ? __fadd_rn(dscore[j], ds) : dscore[j];
  }
}

// kPer: experts per lane.
template <int kPer>
__global__ __launch_bounds__(32 * kRouteWarps) void route_backward_kernel(
    const __grid_constant__ RouteBackwardParams params) {
  __shared__ float shared[kRouteWarps][score_cells(kPer)];
  float* const cells = shared[threadIdx.x / 32];
  const std::int64_t token = std::int64_t{blockIdx.x} * kRouteWarps + threadIdx.x / 32;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (token >= params.tokens) return;

  float dscore[kPer] = {};
  if (params.dscores != nullptr) {
    load_cells({const_cast<float*>(params.dscores), token * params.dscores_pitch, Dtype::f32},
               params.experts, cells);
    read_cells(cells, params.experts, dscore);
  }
  float scores[kPer];
  load_cells({const_cast<float*>(params.scores), token * params.scores_pitch, Dtype::f32},
             params.experts, cells);
  add_weight_gradients(params, token, cells, dscore);
  read_cells(cells, params.experts, scores);

  float terms[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const bool exists = lane_id() * kPer + j < params.experts;
    terms[j] = exists ? __fmul_rn(dscore[j], scores[j]) : 0.0f;
  }
  const float mean = sum_of_experts(terms);
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    terms[j] = params.softmax
                   ? __fmul_rn(scores[j], __fsub_rn(dscore[j], mean))
                   : __fmul_rn(dscore[j], __fmul_rn(scores[j], __fsub_rn(1.0f, scores[j])));
  }
  write_cells(terms, cells);
  store_cells({params.dlogits, token * params.dlogits_pitch, params.dtype}, params.experts, cells);
}

}  // namespace octet::sm90
