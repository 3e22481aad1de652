// grouped[r, :] = from[source[r] / top_k, :] on Hopper, in bytes.
//
// A block has a token, or a piece of it: it is read once and stored for every slot, so top_k + 1
// rows move per token instead of 2 * top_k. Every row has one slot, hence one writer. Memory-bound.
// More blocks zero the rows without a slot.
#pragma once

#include "ops/moe_rows/cuda_sm90_maps.cuh"

namespace octet::sm90 {

struct CopyRowsParams {
  RowMaps maps;
  const void* from;  // [tokens, units]
  std::int64_t from_pitch;
  void* grouped;  // [rows, units]
  std::int64_t grouped_pitch;
  RowBlocks blocks{1, 1};
  SlotFloats weights;  // and row_weight[r] = weights[slot]
  float* row_weight;   // [rows], or null
  ZeroedRows zeroed;
};

template <class Unit, int kUnits>
__global__ __launch_bounds__(RowBlocks::kMaxThreads) void copy_rows_kernel(
    const __grid_constant__ CopyRowsParams params) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (blockIdx.x >= params.zeroed.first_block) return zero_rows(params.maps, params.zeroed);
  const RowBlocks& blocks = params.blocks;
  const std::int64_t token = blockIdx.x / static_cast<unsigned>(blocks.chunks);
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks.chunks));
  const auto thread = static_cast<int>(threadIdx.x);
  const Unit* const from = static_cast<const Unit*>(params.from) + token * params.from_pitch;
  Unit units[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int unit = blocks.unit(chunk, i, thread);
    if (unit < blocks.units) units[i] = from[unit];
  }
  // A lane finds the row of one slot.
  const int choices = params.maps.choices();
  for (int first = 0; first < choices; first += 32) {
    const int k = first + thread % 32;
    const std::int32_t own = k < choices ? params.maps.own_row(token, k) : -1;
    if (params.row_weight != nullptr && chunk == 0 && thread < 32 && own >= 0) {
      params.row_weight[own] = params.weights.at(token, k);
    }
    const int count = choices - first < 32 ? choices - first : 32;
    for (int i = 0; i < count; ++i) {
      const std::int32_t row = __shfl_sync(~0u, own, i);
      if (row < 0) continue;
      Unit* const to = static_cast<Unit*>(params.grouped) + row * params.grouped_pitch;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int unit = blocks.unit(chunk, u, thread);
        if (unit < blocks.units) to[unit] = units[u];
      }
    }
  }
}

}  // namespace octet::sm90
