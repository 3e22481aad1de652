// gated_activation on Hopper in 16 or 32 bits: a thread takes eight neighbouring elements at a
// time.
//
// A block takes a run of 2048 columns of one row. With a weight per row, backward needs the sum
// over all columns, so a block takes the whole row. Memory-bound; 16 or 32 elements per thread were
// not faster than eight.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/rows/eight.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/gated_activation/cuda_sm90_activation.cuh"

namespace octet::sm90 {

inline constexpr int kGatedThreads = 256;

struct GatedParams {
  Matrix gate;              // [rows, cols]
  Matrix up;                // [rows, cols]
  const float* row_weight;  // [rows], or null
  Matrix y;                 // [rows, cols]; forward
  Matrix dy;                // [rows, cols]; this and what follows: backward
  Matrix dgate;
  Matrix dup;
  float* d_row_weight;  // [rows]
  std::int64_t rows;
  int cols;
  int runs;        // of a row; a run has kGatedThreads * kEight columns
  int block_runs;  // runs of a block, taken one after the other
  GateActivation activation;
};

// The weight of a row. Null: nothing is multiplied.
struct RowWeight {
  const float* weight;

  __device__ __forceinline__ void apply(float (&values)[kEight]) const {
    if (weight == nullptr) return;
    const float factor = *weight;
#pragma unroll
    for (int i = 0; i < kEight; ++i) values[i] = __fmul_rn(values[i], factor);
  }
};

template <GateActivation kActivation, Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> gated_output(const Eight<kDtype>& gate,
                                                      const Eight<kDtype>& up, RowWeight weight) {
  float y[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) y[i] = __fmul_rn(activate<kActivation>(gate[i]).value, up[i]);
  weight.apply(y);
  Eight<kDtype> result;
  result.assign(y);
  return result;
}

template <Dtype kDtype>
struct GatedGradients {
  Eight<kDtype> dgate;
  Eight<kDtype> dup;
};

// The gradients of eight elements, and their sum of dy * act(gate) * up, the gradient of the row
// weight.
template <GateActivation kActivation, Dtype kDtype>
__device__ __forceinline__ GatedGradients<kDtype> gated_gradients(const Eight<kDtype>& dy,
                                                                  const Eight<kDtype>& gate,
                                                                  const Eight<kDtype>& up,
                                                                  RowWeight weight, float& sum) {
  float e[kEight];
  float dgate[kEight];
  float dup[kEight];
  float terms[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) e[i] = dy[i];
  weight.apply(e);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const Activated act = activate<kActivation>(gate[i]);
    dgate[i] = __fmul_rn(__fmul_rn(e[i], up[i]), act.slope);
    dup[i] = __fmul_rn(e[i], act.value);
    terms[i] = __fmul_rn(dy[i], __fmul_rn(act.value, up[i]));
  }
  sum = sum_of_eight(terms);
  GatedGradients<kDtype> result;
  result.dgate.assign(dgate);
  result.dup.assign(dup);
  return result;
}

// Eight elements of y.
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ void write_output(const GatedParams& params, std::int64_t row, int col) {
  const RowWeight weight{params.row_weight != nullptr ? params.row_weight + row : nullptr};
  const Eight<kDtype> gate = load_row<kDtype, kRows>(params.gate, row, col, params.cols);
  const Eight<kDtype> up = load_row<kDtype, kRows>(params.up, row, col, params.cols);
  with_activation(params.activation, [&](auto activation) {
    store_row<kRows>(params.y, row, col, params.cols,
                     gated_output<decltype(activation)::value>(gate, up, weight));
  });
}

// Eight elements of dgate and dup; adds their part of the gradient of the row weight to `total`.
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ void write_gradients(const GatedParams& params, std::int64_t row,
                                                int col, RowWeight weight, float& total) {
  const Eight<kDtype> dy = load_row<kDtype, kRows>(params.dy, row, col, params.cols);
  const Eight<kDtype> gate = load_row<kDtype, kRows>(params.gate, row, col, params.cols);
  const Eight<kDtype> up = load_row<kDtype, kRows>(params.up, row, col, params.cols);
  with_activation(params.activation, [&](auto activation) {
    float sum;
    const GatedGradients<kDtype> gradients =
        gated_gradients<decltype(activation)::value>(dy, gate, up, weight, sum);
    total = __fadd_rn(total, sum);
    store_row<kRows>(params.dgate, row, col, params.cols, gradients.dgate);
    store_row<kRows>(params.dup, row, col, params.cols, gradients.dup);
  });
}

template <Dtype kDtype, Rows kRows>
__global__ __launch_bounds__(kGatedThreads) void gated_forward_kernel(
    const __grid_constant__ GatedParams params) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(params.runs);
  const int run = static_cast<int>(blockIdx.x % static_cast<unsigned>(params.runs));
  const int col = (run * kGatedThreads + static_cast<int>(threadIdx.x)) * kEight;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (col >= params.cols) return;
  write_output<kDtype, kRows>(params, row, col);
}

// The sum over a block as a tree over its threads; every thread gets it.
__device__ __forceinline__ float sum_of_block(float value) {
  __shared__ float sums[kGatedThreads / 32];
  value = sum_of_lanes(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  return sum_of_warps(sums, kGatedThreads / 32);
}

template <Dtype kDtype, Rows kRows>
__global__ __launch_bounds__(kGatedThreads) void gated_backward_kernel(
    const __grid_constant__ GatedParams params) {
  const auto blocks_of_row = static_cast<unsigned>(params.runs / params.block_runs);
  const std::int64_t row = blockIdx.x / blocks_of_row;
  const int first_run = static_cast<int>(blockIdx.x % blocks_of_row) * params.block_runs;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const RowWeight weight{params.row_weight != nullptr ? params.row_weight + row : nullptr};
  float total = 0;
  for (int run = first_run; run < first_run + params.block_runs; ++run) {
    const int col = (run * kGatedThreads + static_cast<int>(threadIdx.x)) * kEight;
    if (col >= params.cols) break;
    write_gradients<kDtype, kRows>(params, row, col, weight, total);
  }
  if (params.d_row_weight == nullptr) return;
  total = sum_of_block(total);
  if (threadIdx.x == 0) params.d_row_weight[row] = total;
}

}  // namespace octet::sm90
