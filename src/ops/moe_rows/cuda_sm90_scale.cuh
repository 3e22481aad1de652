// Backward of a weighted moe_unpermute on Hopper, in one pass over dout, grouped and dgrouped:
//
//   dgrouped[row, :] = round(weights[t, k] * dout[t, :])
//   dweights[t, k] = sum(dout[t, :] * grouped[row, :])     a balanced tree of neighbours
//
// A block has a token and eight of its slots. A thread has eight neighbouring columns; the tree is:
// its eight products, the lanes of a warp, and the sums of 256 columns each, which the block
// collects in shared memory. Memory-bound: four rows are in flight per thread. More blocks zero the
// rows without a slot.
#pragma once

#include "device/rows/tree_sum.cuh"
#include "ops/moe_rows/cuda_sm90_access.cuh"
#include "ops/moe_rows/cuda_sm90_maps.cuh"

namespace octet::sm90 {

inline constexpr int kScaleSlots = 8;  // of a block
inline constexpr int kScaleRows = 4;   // in flight

struct ScaleRowsParams {
  RowMaps maps;
  RowMatrix dout;      // [tokens, cols]
  RowMatrix grouped;   // [rows, cols]
  RowMatrix dgrouped;  // [rows, cols]
  SlotFloats weights;
  SlotFloats dweights;
  RowBlocks blocks{1, 1};  // its chunks are taken one after the other
  int slot_blocks;         // of a token
  int tree_sums;           // sums of a slot in shared memory, a power of two
  ZeroedRows zeroed;
};

// The slot of a lane, 0 to 7 of the block's.
struct ScaledSlot {
  std::int32_t row;    // that is read, or -1
  std::int32_t owned;  // that is written, or -1
  float weight;
};

// Rows first .. first + 3 of the block's slots, at one column: stores the scaled elements and
// returns the sums over the warp of the products with dout, as sums_of_lanes() leaves them.
template <class Access>
__device__ __forceinline__ float scale_rows(const ScaleRowsParams& params, const ScaledSlot& own,
                                            int first, int col,
                                            const typename Access::Values& dout) {
  std::int32_t rows[kScaleRows];
  typename Access::Values values[kScaleRows];
  const bool inside = col < params.dout.cols;
#pragma unroll
  for (int i = 0; i < kScaleRows; ++i) {
    rows[i] = __shfl_sync(~0u, own.row, first + i);
    if (rows[i] >= 0 && inside) values[i] = Access::load(params.grouped, rows[i], col);
  }
  float sums[kScaleRows];
#pragma unroll
  for (int i = 0; i < kScaleRows; ++i) {
    const std::int32_t owned = __shfl_sync(~0u, own.owned, first + i);
    const float weight = __shfl_sync(~0u, own.weight, first + i);
    sums[i] = 0;
    if (rows[i] < 0 || !inside) continue;
    float terms[kEight];
    if (owned >= 0) {
#pragma unroll
      for (int c = 0; c < kEight; ++c) terms[c] = __fmul_rn(weight, dout[c]);
      Access::store(params.dgrouped, owned, col, terms);
    }
#pragma unroll
    for (int c = 0; c < kEight; ++c) terms[c] = __fmul_rn(dout[c], values[i][c]);
    sums[i] = sum_of_eight(terms);
  }
  return sums_of_lanes(sums);
}

// The tree over `count` sums in shared memory, a power of two; all lanes of a warp call it.
__device__ __forceinline__ float sum_of_tree(float* sums, int count) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (; count > 32; count /= 2) {
    for (int i = lane; i < count / 2; i += 32) {
      const float sum = __fadd_rn(sums[2 * i], sums[2 * i + 1]);
      __syncwarp();  // lanes write over what others have read; later rounds read further on
      sums[i] = sum;
    }
    __syncwarp();
  }
  return __fadd_rn(sum_of_lanes(lane < count ? sums[lane] : 0.0f), 0.0f);
}

template <class Access>
__global__ __launch_bounds__(RowBlocks::kMaxThreads) void scale_rows_kernel(
    const __grid_constant__ ScaleRowsParams params) {
  extern __shared__ float sums[];  // [slots, tree_sums]
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (blockIdx.x >= params.zeroed.first_block) return zero_rows(params.maps, params.zeroed);
  const std::int64_t token = blockIdx.x / static_cast<unsigned>(params.slot_blocks);
  const auto first_slot =
      static_cast<int>(blockIdx.x % static_cast<unsigned>(params.slot_blocks)) * kScaleSlots;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;

  // A lane finds the row of one slot.
  const int choices = params.maps.choices();
  const int k = first_slot + lane;
  ScaledSlot own{-1, -1, 0};
  if (lane < kScaleSlots && k < choices) {
    own.row = params.maps.row(token, k);
    own.owned = params.maps.own_row(token, k);
    own.weight = params.weights.at(token, k);
  }
  for (int i = thread; i < kScaleSlots * params.tree_sums; i += params.blocks.threads) sums[i] = 0;
  __syncthreads();

  const int slots = choices - first_slot < kScaleSlots ? choices - first_slot : kScaleSlots;
  for (int chunk = 0; chunk < params.blocks.chunks; ++chunk) {
    const int unit = params.blocks.unit(chunk, 0, thread);
    typename Access::Values dout{};
    if (unit < params.blocks.units) dout = Access::load(params.dout, token, unit * kEight);
    for (int first = 0; first < slots; first += kScaleRows) {
      const float sum = scale_rows<Access>(params, own, first, unit * kEight, dout);
      const int slot = first + value_of_lane(lane, kScaleRows);
      if (lane < kScaleRows) sums[slot * params.tree_sums + unit / 32] = sum;
    }
  }
  __syncthreads();
  for (int slot = thread / 32; slot < slots; slot += params.blocks.threads / 32) {
    const float sum = sum_of_tree(sums + slot * params.tree_sums, params.tree_sums);
    const bool has_row = __shfl_sync(~0u, own.row, slot) >= 0;
    if (lane == 0) params.dweights.at(token, first_slot + slot) = has_row ? sum : 0;
  }
}

}  // namespace octet::sm90
