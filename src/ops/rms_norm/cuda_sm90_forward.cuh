// rms_norm forward on Hopper: a row is read once, kept in registers, and written once.
// Memory-bound: what counts is how many bytes are in flight and how few instructions an element
// costs.
#pragma once

#include "device/ptx/barrier.cuh"
#include "ops/rms_norm/cuda_sm90_row.cuh"

namespace octet::sm90 {

struct RmsNormForwardParams {
  Matrix x;         // [rows, cols]
  Matrix residual;  // [rows, cols], or null data
  Weights g;        // [cols]
  Matrix y;         // [rows, cols]
  Matrix sum;       // [rows, cols]; written where there is a residual
  float* rstd;      // [rows], or null
  unsigned rows;
  int cols;
  int row_threads_log2;
  float eps;
  bool one_plus_weight;
};

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> sum_of(const Eight<kDtype>& x, const Eight<kDtype>& y) {
  float sums[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) sums[i] = __fadd_rn(x[i], y[i]);
  Eight<kDtype> result;
  result.assign(sums);
  return result;
}

// Loads a thread's vectors of h: x, or x + residual rounded, which is also written to `sum`. All
// loads of x are in flight at once.
template <Rows kRows, Dtype kDtype, int kVectors>
__device__ __forceinline__ void load_h(const RmsNormForwardParams& params, unsigned row, int cols,
                                       const RowThreads& threads, Eight<kDtype> (&h)[kVectors]) {
  const RowVectors<kDtype, kRows> x(params.x, row, cols, threads);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) h[v] = x.load(v);
  if (params.residual.data == nullptr) return;
  const RowVectors<kDtype, kRows> residual(params.residual, row, cols, threads);
  const RowVectors<kDtype, kRows> sum(params.sum, row, cols, threads);
  constexpr int kGroup = kVectors < 2 ? kVectors : 2;  // registers do not hold all of both
#pragma unroll
  for (int first = 0; first < kVectors; first += kGroup) {
    Eight<kDtype> more[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) more[i] = residual.load(first + i);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      h[first + i] = sum_of(h[first + i], more[i]);
      sum.store(first + i, h[first + i]);
    }
  }
}

// For aligned weights of the tensor's dtype that are used as they are: loads of four vectors are in
// flight at once.
template <Dtype kDtype, int kVectors>
__device__ __forceinline__ void write_normed_by_plain_gains(const RmsNormForwardParams& params,
                                                            unsigned row, const RowThreads& threads,
                                                            float rstd,
                                                            const Eight<kDtype> (&h)[kVectors]) {
  using Vectors = RowVectors<kDtype, Rows::whole>;
  const Vectors gains({const_cast<void*>(params.g.data), 0}, 0, params.cols, threads);
  const Vectors y(params.y, row, params.cols, threads);
  constexpr int kGroup = 4;
#pragma unroll
  for (int first = 0; first < kVectors; first += kGroup) {
    Eight<kDtype> g[kGroup];
#pragma unroll
    for (int v = 0; v < kGroup; ++v) g[v] = gains.load(first + v);
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      float w[kEight];
#pragma unroll
      for (int i = 0; i < kEight; ++i) w[i] = g[v][i];
      y.store(first + v, normed(h[first + v], rstd, w));
    }
  }
}

template <Rows kRows, Dtype kDtype, int kVectors>
__device__ __forceinline__ void write_normed(const RmsNormForwardParams& params, unsigned row,
                                             const RowThreads& threads, float rstd,
                                             const Eight<kDtype> (&h)[kVectors]) {
  const RowVectors<kDtype, kRows> y(params.y, row, params.cols, threads);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (!y.has(v)) continue;
    float w[kEight];
    load_gains<kRows>(params.g, params.one_plus_weight, threads.col(v), params.cols, w);
    y.store(v, normed(h[v], rstd, w));
  }
}

template <Dtype kDtype, Rows kRows, int kVectors>
__global__ __launch_bounds__(kRmsNormMaxThreads) void rms_norm_forward_kernel(
    const __grid_constant__ RmsNormForwardParams params) {
  __shared__ float shared[kVectors * kRmsNormMaxThreads / 32];
  const RowThreads threads = RowThreads::of_log2(params.row_threads_log2);
  const unsigned row = blockIdx.x * (blockDim.x >> params.row_threads_log2) + threads.row;
  const bool valid = row < params.rows;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Read
  Eight<kDtype> h[kVectors];
  load_h<kRows>(params, valid ? row : 0, valid ? params.cols : 0, threads, h);

  // Root mean square
  float vector_sums[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) vector_sums[v] = sum_of_squares(h[v]);
  float* sums = shared + threads.row * threads.warps() * kVectors;
  store_warp_sums<kVectors>(vector_sums, threads, sums);
  if (params.row_threads_log2 == 5) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  const float sum = sum_of_warps(sums, threads.warps() * kVectors);
  const float rstd = rstd_of(sum, params.cols, params.eps);
  if (!valid) return;
  if (params.rstd != nullptr && threads.index == 0) params.rstd[row] = rstd;

  // Write
  if (kRows == Rows::whole && params.g.dtype == kDtype && !params.one_plus_weight) {
    write_normed_by_plain_gains(params, row, threads, rstd, h);
  } else {
    write_normed<kRows>(params, row, threads, rstd, h);
  }
}

}  // namespace octet::sm90
