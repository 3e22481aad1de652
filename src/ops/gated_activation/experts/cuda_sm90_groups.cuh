// gated_activation over groups of rows to FP8 on Hopper: the tiles of cuda_sm90_tile.cuh, each of up
// to 128 rows of one group (ops/quantize/experts). Backward with a weight per row leaves the part
// that every tile has of its gradient in the workspace, and a second kernel adds the parts of a row
// in the order of the columns.
#pragma once

#include "ops/gated_activation/cuda_sm90_tile.cuh"
#include "ops/quantize/experts/cuda_sm90_groups.cuh"

namespace octet::sm90 {

struct GatedGroupsParams {
  GatedTileParams tile;
  GroupParams groups;
  float* weight_parts;  // [tiles of dgate in a row, rows]; null: no gradient of the row weight
};

// Eight elements of row `row` of a tile; zeros where it has no such row.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_tile_row(const TileSource& source,
                                                       const TokenTile& tile, int row,
                                                       const PatchPlace& place) {
  if (!tile.has(row)) return {};
  if (!source.whole()) return load_edge<kDtype>(source, tile.row + row, place.col0());
  return load_eight<kDtype>(
      element_at<kDtype>(source.matrix, tile.row + row, static_cast<int>(place.col0())));
}

// Loads a thread's patch; in a whole tile all of its loads are in flight at once.
template <Dtype kDtype>
__device__ __forceinline__ void load_tile_rows(Patch<kDtype>& patch, const TileSource& source,
                                               const TokenTile& tile, const PatchPlace& place) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    patch.rows[i] = load_tile_row<kDtype>(source, tile, place.ty * kPatch + i, place);
  }
}

// Copies a thread's patch to shared memory. It has arrived after ptx::wait_copies().
template <Dtype kDtype>
__device__ __forceinline__ void copy_tile_rows(SharedPatches<kDtype>& to, const TileSource& source,
                                               const TokenTile& tile, const PatchPlace& place) {
  const int first = place.ty * kPatch;
  if (source.whole()) {
    const char* from =
        element_at<kDtype>(source.matrix, tile.row + first, static_cast<int>(place.col0()));
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const std::uint32_t address = ptx::shared_address(&to[i][threadIdx.x]);
      const bool there = tile.has(first + i);
#pragma unroll
      for (int bytes = 0; bytes < static_cast<int>(sizeof(Eight<kDtype>)); bytes += 16) {
        ptx::copy_16_bytes_or_zeros(address + bytes, from + bytes, there);
      }
      from += source.matrix.pitch * kElementBytes<kDtype>;
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < kPatch; ++i) {
      to[i][threadIdx.x] = load_tile_row<kDtype>(source, tile, first + i, place);
    }
  }
}

__device__ __forceinline__ RowWeight weight_of_row(const GatedTileParams& params,
                                                   const TokenTile& tile, int row) {
  return {params.row_weight != nullptr && tile.has(row) ? params.row_weight + tile.row + row
                                                        : nullptr};
}

// The sums of a thread's rows wait in shared memory that the quantiser needs later: registers have
// no room for them.
using SharedSums = float[kPatch][kQuantizeThreads];
static_assert(sizeof(SharedSums) <= sizeof(QuantizeStorage::transposed));

// Stores the sums over the columns of the tile, for the rows of each thread's patch.
__device__ __forceinline__ void store_weight_parts(const GatedGroupsParams& params,
                                                   const TokenTile& tile, const PatchPlace& place,
                                                   const SharedSums& shared) {
  float sums[kPatch];
#pragma unroll
  for (int i = 0; i < kPatch; ++i) sums[i] = shared[i][threadIdx.x];
  const float sum = sums_of_lanes<kPatch, 16>(sums);
  const int row = place.ty * kPatch + value_of_lane(place.tx, kPatch);
  if (place.tx >= kPatch || !tile.has(row)) return;
  params.weight_parts[std::int64_t{place.tile_col} * params.groups.rows + tile.row + row] = sum;
}

template <Dtype kDtype, bool kE5m2>
__global__
__launch_bounds__(kQuantizeThreads, kGatedForwardBlocks) void gated_forward_groups_kernel(
    const __grid_constant__ GatedGroupsParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<GatedForwardStorage<kDtype>*>(memory);
  const GatedTileParams& gated = params.tile;
  const auto index = static_cast<std::int32_t>(blockIdx.x / gated.copies.tiles_across);
  const PatchPlace place(0, blockIdx.x % gated.copies.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Find the rows
  if (index == 0) fill_scale_padding(gated.copies, params.groups, place.tile_col);
  const TokenTile tile = find_tile(params.groups, index);
  if (tile.rows == 0) return;
  if (!tile.grouped) {
    if (!params.groups.clear_tail) return;
    return clear_tile(copies_of_tile(gated.copies, params.groups, tile, index), tile, place);
  }

  // Read: gate to shared memory, up to the registers that y overwrites
  const bool inside = is_inside<TileRows::of_group>(gated.copies, place);
  Patch<kDtype> patch;
  copy_tile_rows<kDtype>(shared.gate, source_of(gated, gated.gate, inside), tile, place);
  load_tile_rows(patch, source_of(gated, gated.up, inside), tile, place);
  ptx::wait_copies();

  // Activate
  with_fused_activation(gated.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      patch.rows[i] = gated_output<decltype(activation)::value>(
          shared.gate[i][threadIdx.x], patch.rows[i],
          weight_of_row(gated, tile, place.ty * kPatch + i));
    }
  });
  quantize_patch<kE5m2, L2Hint::normal, TileRows::of_group>(
      shared.quantize, late_copies_of_tile(gated.copies, params.groups, tile, index), patch, place);
}

template <Dtype kDtype, bool kE5m2>
__global__
__launch_bounds__(kQuantizeThreads, kGatedBackwardBlocks) void gated_backward_groups_kernel(
    const __grid_constant__ GatedGroupsParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<GatedBackwardStorage<kDtype>*>(memory);
  const GatedTileParams& gated = params.tile;
  const unsigned across = gated.copies.tiles_across / 2;
  const auto index = static_cast<std::int32_t>(blockIdx.x / across);
  const PatchPlace place(0, blockIdx.x % across);
  const PatchPlace dup_place(0, place.tile_col + across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Find the rows
  if (index == 0) {
    fill_scale_padding(gated.copies, params.groups, place.tile_col);
    fill_scale_padding(gated.copies, params.groups, dup_place.tile_col);
  }
  const TokenTile tile = find_tile(params.groups, index);
  if (tile.rows == 0) return;
  if (!tile.grouped) {
    if (!params.groups.clear_tail) return;
    const QuantizeParams own = copies_of_tile(gated.copies, params.groups, tile, index);
    clear_tile(own, tile, place);
    clear_tile(own, tile, dup_place);
    return;
  }

  // Read: up and dy to shared memory, gate to registers
  Patch<kDtype> patch;
  copy_tile_rows<kDtype>(shared.up, source_of(gated, gated.up, true), tile, place);
  copy_tile_rows<kDtype>(shared.dy, source_of(gated, gated.dy, true), tile, place);
  load_tile_rows(patch, source_of(gated, gated.gate, true), tile, place);
  ptx::wait_copies();

  // Differentiate: dgate overwrites gate, dup overwrites dy
  auto& sums = reinterpret_cast<SharedSums&>(shared.quantize.transposed);
  with_fused_activation(gated.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float sum;
      const GatedGradients<kDtype> gradients = gated_gradients<decltype(activation)::value>(
          shared.dy[i][threadIdx.x], patch.rows[i], shared.up[i][threadIdx.x],
          weight_of_row(gated, tile, place.ty * kPatch + i), sum);
      if (params.weight_parts != nullptr) sums[i][threadIdx.x] = sum;
      patch.rows[i] = gradients.dgate;
      shared.dy[i][threadIdx.x] = gradients.dup;
    }
  });
  if (params.weight_parts != nullptr) store_weight_parts(params, tile, place, sums);
#pragma unroll 1
  for (unsigned part = 0; part < 2; ++part) {
    if (part == 1) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kPatch; ++i) patch.rows[i] = shared.dy[i][threadIdx.x];
    }
    PatchPlace half(0, place.tile_col + part * across);
    make_opaque(half);
    quantize_patch<kE5m2, L2Hint::normal, TileRows::of_group>(
        shared.quantize, late_copies_of_tile(gated.copies, params.groups, tile, index), patch,
        half);
  }
}

// The gradient of a row's weight: the parts of its tiles, added from the first column on. Rows
// behind the last group become 0, or stay.
struct WeightPartsParams {
  const int4* table;
  const float* parts;  // [count, rows]
  float* d_row_weight;
  std::int32_t groups;
  std::int32_t rows;
  int count;
  bool clear_tail;
};

inline constexpr int kWeightPartsThreads = 128;

__global__ __launch_bounds__(kWeightPartsThreads) void add_weight_parts_kernel(
    const __grid_constant__ WeightPartsParams params) {
  const auto row = static_cast<std::int32_t>(blockIdx.x * kWeightPartsThreads + threadIdx.x);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (row >= params.rows) return;
  const std::int32_t grouped_rows = grouped_rows_of(params.table, params.groups, params.rows);
  if (row < grouped_rows) {
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < params.count; ++i) {
      sum = __fadd_rn(sum, params.parts[std::int64_t{i} * params.rows + row]);
    }
    params.d_row_weight[row] = sum;
  } else if (params.clear_tail && grouped_rows >= 0) {
    params.d_row_weight[row] = 0;
  }
}

}  // namespace octet::sm90
