// The rows of linear_cross_entropy on Hopper: a block per row of logits.
//
//   lse  = max + log(sum of exp(logit - max)), max and sum in one pass over the row
//   loss = (max - logit[target]) + log(sum)
//   dlogits = (exp(logit - lse) - onehot) * scale, in the place of the logits
//
// Memory-bound: the row is read, and for gradients read again and written. A row of 128256 words in
// bf16 is 257 kB, one block of 1024 threads per multiprocessor keeps 34 MB of rows in flight, so the
// second read finds them in L2 (50 MB). What it writes is read next by a cast, after all of the
// chunk: it leaves L2 first.
// Sums are taken in a fixed order: the vectors of a thread, the lanes of a warp, the warps.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/rows/eight.cuh"
#include "device/rows/integers.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/linear_cross_entropy/rows.hpp"

#include <cfloat>

namespace octet::sm90 {

inline constexpr int kLossThreads = 1024;
inline constexpr int kLossWarps = kLossThreads / 32;
inline constexpr float kLog2E = 1.4426950408889634f;

struct LossRowsParams {
  Matrix logits;           // [rows, cols]; rows are whole vectors, with padding
  Integers targets;        // [rows]
  float* loss;             // [rows], or null
  float* lse;              // [rows], or null
  const float* given_lse;  // [rows], or null
  const float* row_grad;   // [rows], or null: totals->scale
  const LossTotals* totals;
  std::int64_t ignore_index;
  int cols;
  bool gradient;
};

// The largest of some logits, and the sum of exp(logit - largest). The largest starts at the lowest
// finite number: -infinity less itself would be NaN.
struct ExpSumOfLogits {
  float largest = -FLT_MAX;
  float sum = 0;

  __device__ __forceinline__ void raise(float to) {
    sum *= ptx::exp2_approx((largest - to) * kLog2E);
    largest = to;
  }
  __device__ __forceinline__ void add(const ExpSumOfLogits& other) {
    const float to = fmaxf(largest, other.largest);
    const float mine = sum * ptx::exp2_approx((largest - to) * kLog2E);
    const float theirs = other.sum * ptx::exp2_approx((other.largest - to) * kLog2E);
    largest = to;
    sum = __fadd_rn(mine, theirs);
  }
};

// exp(logit - from), and 0 beyond the end of the row.
__device__ __forceinline__ float exp_of(float logit, float from) {
  return ptx::exp2_approx((logit - from) * kLog2E);
}

template <Dtype kDtype>
__device__ __forceinline__ void add_eight(const Eight<kDtype>& logits, int left,
                                          ExpSumOfLogits& exp_sum) {
  float values[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) values[i] = i < left ? logits[i] : -INFINITY;
  float largest = exp_sum.largest;
#pragma unroll
  for (int i = 0; i < kEight; ++i) largest = fmaxf(largest, values[i]);
  if (largest > exp_sum.largest) exp_sum.raise(largest);
#pragma unroll
  for (int i = 0; i < kEight; ++i) values[i] = exp_of(values[i], exp_sum.largest);
  exp_sum.sum = __fadd_rn(exp_sum.sum, sum_of_eight(values));
}

// Over the block; every thread gets the result.
__device__ __forceinline__ ExpSumOfLogits join_block(ExpSumOfLogits exp_sum) {
  __shared__ ExpSumOfLogits warps[kLossWarps];
  const auto join_lanes = [](ExpSumOfLogits& mine) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      ExpSumOfLogits other;
      other.largest = __shfl_xor_sync(~0u, mine.largest, step);
      other.sum = __shfl_xor_sync(~0u, mine.sum, step);
      mine.add(other);
    }
  };
  join_lanes(exp_sum);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = exp_sum;
  __syncthreads();
  exp_sum = warps[threadIdx.x % 32];
  join_lanes(exp_sum);
  return exp_sum;
}

template <Dtype kDtype>
__device__ __forceinline__ ExpSumOfLogits sum_row(const LossRowsParams& params, std::int64_t row) {
  ExpSumOfLogits exp_sum;
  constexpr int kStep = kLossThreads * kEight;
#pragma unroll 4
  for (int col = static_cast<int>(threadIdx.x) * kEight; col < params.cols; col += kStep) {
    add_eight(load_eight<kDtype>(element_at<kDtype>(params.logits, row, col)), params.cols - col,
              exp_sum);
  }
  return join_block(exp_sum);
}

// Past the end of a row its padding is written too.
template <Dtype kDtype>
__device__ __forceinline__ void store_gradient(const LossRowsParams& params, std::int64_t row,
                                               int target, float lse, float scale) {
  const std::uint64_t policy = ptx::evict_first_policy();
  constexpr int kStep = kLossThreads * kEight;
#pragma unroll 4
  for (int col = static_cast<int>(threadIdx.x) * kEight; col < params.cols; col += kStep) {
    char* at = element_at<kDtype>(params.logits, row, col);
    Eight<kDtype> eight = load_eight<kDtype>(at);
    float values[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      values[i] = __fmul_rn(exp_of(eight[i], lse) - (col + i == target ? 1.0f : 0.0f), scale);
    }
    eight.assign(values);
#pragma unroll
    for (int v = 0; v < Eight<kDtype>::kWords / 4; ++v) {
      ptx::store_global(at + 16 * v,
                        make_uint4(eight.words[4 * v], eight.words[4 * v + 1],
                                   eight.words[4 * v + 2], eight.words[4 * v + 3]),
                        policy);
    }
  }
}

template <Dtype kDtype>
__device__ __forceinline__ void store_zeros(const LossRowsParams& params, std::int64_t row) {
  const Eight<kDtype> zeros{};
  constexpr int kStep = kLossThreads * kEight;
  for (int col = static_cast<int>(threadIdx.x) * kEight; col < params.cols; col += kStep) {
    store_eight(element_at<kDtype>(params.logits, row, col), zeros);
  }
}

// The target's logit; NaN for a target that is no word, so that the loss is NaN.
template <Dtype kDtype>
__device__ __forceinline__ float logit_of(const LossRowsParams& params, std::int64_t row,
                                          std::int64_t target) {
  if (target < 0 || target >= params.cols) return NAN;
  const char* at = element_at<kDtype>(params.logits, row, static_cast<int>(target));
  return load_singly<kDtype>(at, 1)[0];
}

template <Dtype kDtype>
__global__ __launch_bounds__(kLossThreads, 1) void loss_rows_kernel(
    const __grid_constant__ LossRowsParams params) {
  const std::int64_t row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const std::int64_t target = params.targets[row];
  if (target == params.ignore_index) {
    if (threadIdx.x == 0 && params.loss != nullptr) params.loss[row] = 0;
    if (threadIdx.x == 0 && params.lse != nullptr) params.lse[row] = 0;
    if (params.gradient) store_zeros<kDtype>(params, row);
    return;
  }
  const float logit = logit_of<kDtype>(params, row, target);
  float lse;
  if (params.given_lse != nullptr) {
    lse = params.given_lse[row];
    __syncthreads();  // the target's logit is read before it is overwritten
  } else {
    const ExpSumOfLogits exp_sum = sum_row<kDtype>(params, row);
    const float log_sum = logf(exp_sum.sum);
    lse = exp_sum.largest + log_sum;
    if (threadIdx.x == 0) {
      if (params.loss != nullptr) params.loss[row] = (exp_sum.largest - logit) + log_sum;
      if (params.lse != nullptr) params.lse[row] = lse;
    }
  }
  if (!params.gradient) return;
  float scale = params.row_grad != nullptr ? params.row_grad[row] : params.totals->scale;
  if (isnan(logit)) scale = NAN;
  store_gradient<kDtype>(params, row, static_cast<int>(target), lse, scale);
}

// One block: integers, so any order gives the same count.
struct CountParams {
  Integers targets;
  std::int64_t tokens;
  std::int64_t ignore_index;
  const float* loss_grad;  // or null: 1
  bool mean;
  LossTotals* totals;
};

static __global__ __launch_bounds__(kLossThreads) void count_targets_kernel(
    const __grid_constant__ CountParams params) {
  __shared__ unsigned long long counted;
  if (threadIdx.x == 0) counted = 0;
  __syncthreads();
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  unsigned long long mine = 0;
  for (std::int64_t i = threadIdx.x; i < params.tokens; i += kLossThreads) {
    mine += params.targets[i] != params.ignore_index;
  }
  atomicAdd(&counted, mine);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float grad = params.loss_grad != nullptr ? *params.loss_grad : 1.0f;
  params.totals->counted = static_cast<std::int64_t>(counted);
  params.totals->scale = params.mean ? __fdiv_rn(grad, static_cast<float>(counted)) : grad;
}

// One block, in f64: the losses of a thread in their order, then the threads as a tree.
struct SumParams {
  const float* losses;
  std::int64_t tokens;
  const LossTotals* totals;
  bool mean;
  float* loss;
};

static __global__ __launch_bounds__(kLossThreads) void sum_losses_kernel(
    const __grid_constant__ SumParams params) {
  __shared__ double sums[kLossThreads];
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < params.tokens; i += kLossThreads) sum += params.losses[i];
  sums[threadIdx.x] = sum;
  for (unsigned half = kLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  if (params.mean) sums[0] /= static_cast<double>(params.totals->counted);
  *params.loss = static_cast<float>(sums[0]);
}

// dw = the f32 sum, rounded; a thread takes four elements of a row.
struct RoundParams {
  const float* sum;  // [rows, cols], dense
  void* dw;          // [rows, cols]
  std::int64_t pitch;
  std::int64_t cols;
  bool bf16;  // else f16
};

inline constexpr int kRoundThreads = 256;

static __global__ __launch_bounds__(kRoundThreads) void round_gradient_kernel(
    const __grid_constant__ RoundParams params) {
  const std::int64_t row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const float* from = params.sum + row * params.cols;
  auto* to = static_cast<std::uint16_t*>(params.dw) + row * params.pitch;
  for (std::int64_t col = threadIdx.x; col < params.cols; col += kRoundThreads) {
    to[col] = params.bf16 ? bf16_from_f32(from[col]) : f16_from_f32(from[col]);
  }
}

}  // namespace octet::sm90
