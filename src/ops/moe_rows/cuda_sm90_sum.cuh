// out[t, :] = round(sum over k of weights[t, k] * grouped[row_of[t, k], :]) on Hopper.
//
// A block has a token, or a piece of it; a thread adds its elements of every row in the order of k,
// s = fma(weight, row, s). Without weights they are 1, for which this is the plain sum.
// Memory-bound: four rows are in flight per thread, 128 bytes.
#pragma once

#include "ops/moe_rows/cuda_sm90_access.cuh"
#include "ops/moe_rows/cuda_sm90_maps.cuh"

namespace octet::sm90 {

struct SumRowsParams {
  RowMaps maps;
  RowMatrix grouped;   // [rows, cols]
  RowMatrix out;       // [tokens, cols]
  SlotFloats weights;  // or null data
  RowBlocks blocks{1, 1};
  const float* d_row_weight;  // [rows], and dweights[t, k] = d_row_weight[row]
  SlotFloats dweights;        // or null data
};

template <class Access>
__global__ __launch_bounds__(RowBlocks::kMaxThreads) void sum_rows_kernel(
    const __grid_constant__ SumRowsParams params) {
  constexpr int kRows = 4;  // in flight
  constexpr int kEights = Access::kEights;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const RowBlocks& blocks = params.blocks;
  const std::int64_t token = blockIdx.x / static_cast<unsigned>(blocks.chunks);
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks.chunks));
  const auto thread = static_cast<int>(threadIdx.x);
  int cols[kEights];
#pragma unroll
  for (int e = 0; e < kEights; ++e) cols[e] = blocks.unit(chunk, e, thread) * kEight;
  float sums[kEights][kEight] = {};

  // A lane finds the row of one slot.
  const int choices = params.maps.choices();
  for (int first = 0; first < choices; first += 32) {
    const int k = first + thread % 32;
    const std::int32_t own = k < choices ? params.maps.row(token, k) : -1;
    float own_weight = 1;
    if (params.weights.data != nullptr && own >= 0) own_weight = params.weights.at(token, k);
    if (params.dweights.data != nullptr && chunk == 0 && thread < 32 && k < choices) {
      params.dweights.at(token, k) = own >= 0 ? params.d_row_weight[own] : 0;
    }
    const int count = choices - first < 32 ? choices - first : 32;
    for (int from = 0; from < count; from += kRows) {
      std::int32_t rows[kRows];
      typename Access::Values values[kRows][kEights];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        rows[i] = __shfl_sync(~0u, own, from + i);
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
          if (rows[i] >= 0 && cols[e] < params.out.cols) {
            values[i][e] = Access::load(params.grouped, rows[i], cols[e]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float weight = __shfl_sync(~0u, own_weight, from + i);
        if (rows[i] < 0) continue;
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
#pragma unroll
          for (int c = 0; c < kEight; ++c) {
            sums[e][c] = __fmaf_rn(weight, values[i][e][c], sums[e][c]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    if (cols[e] < params.out.cols) Access::store(params.out, token, cols[e], sums[e]);
  }
}

}  // namespace octet::sm90
