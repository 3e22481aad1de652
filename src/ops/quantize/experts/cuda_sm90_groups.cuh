// FP8 copies of groups of rows, one block per 128 rows of a group and 128 columns. The row copy
// stays unpadded; the tile's transposed copy is a part of a token block, which is written whole. A
// tile with fewer than 128 rows takes the same path as a full one, with a predicate per row.
#pragma once

#include "device/scheduler/raster.hpp"
#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/quantize/experts/token_tile.hpp"

namespace octet::sm90 {

// Where the rows of groups lie, for kernels over groups.
struct GroupParams {
  const int4* table;
  const int4* tiles;            // of 128 rows, in the table
  std::int32_t groups;          // of the table
  std::int32_t rows;            // of the buffers
  std::int64_t value_stride;    // from one token block to the next
  std::int64_t scale_stride;    // the same of their scales
  std::int64_t token_blocks;    // of the transposed copy
  std::int64_t scale_line;      // 128x128: room for the scales of so many token blocks; else 0
  std::int64_t row_scale_line;  // room for the scales of so many rows; 0: padding is not ours
  bool clear_tail;
};

// The rows of an input that is gathered: row r is input row source[r] / slots.
struct GatherParams {
  const std::int32_t* source;  // [rows], or null: row r
  std::uint32_t entries;       // source[r] is less
  std::int64_t input_rows;
  Divisor slots;
};

struct QuantizeGroupsParams {
  QuantizeParams copies;  // of all rows; the transposed copy is token block 0
  GroupParams groups;
  GatherParams gather;
};

// The tile of this block.
__device__ __forceinline__ TokenTile find_tile(const GroupParams& groups, std::int32_t index) {
  const int4 words[2] = {groups.table[0], groups.table[1]};
  const int4 entry = groups.tiles[index];
  const TokenTileHead head{words[0].x,
                           words[0].y,
                           words[0].z,
                           words[0].w,
                           words[1].x,
                           words[1].y,
                           {words[1].z, words[1].w}};
  return token_tile(head, {entry.x, entry.y, entry.z, entry.w}, index, groups.groups, groups.rows);
}

// Rows that belong to groups; -1 where the table is not one of these buffers.
__device__ __forceinline__ std::int32_t grouped_rows_of(const int4* table, std::int32_t groups,
                                                        std::int32_t rows) {
  const int4 head = table[0];
  const bool sound = (head.x == kGroupTableMagic) & (head.y == groups) & (head.z == rows);
  return sound ? head.w : -1;
}

// The copies of one tile: row 0 is its first row, column 0 of the transposed copy its first token.
__device__ __forceinline__ QuantizeParams copies_of_tile(const QuantizeParams& all,
                                                         const GroupParams& groups,
                                                         const TokenTile& tile,
                                                         std::int32_t index) {
  QuantizeParams own = all;
  own.rows = tile.rows;
  own.out.values += tile.row * all.out.pitch;
  own.out.scales += tile.row * all.out.scale_strides[0];
  own.transposed.values += index * groups.value_stride;
  own.transposed.scales += index * groups.scale_stride;
  return own;
}

// The same without addresses that were computed before: kernels that need registers before they
// write their copies ask for these behind that.
__device__ __forceinline__ QuantizeParams late_copies_of_tile(const QuantizeParams& all,
                                                              const GroupParams& groups,
                                                              TokenTile tile, std::int32_t index) {
  ptx::make_opaque(tile.row);
  ptx::make_opaque(tile.rows);
  ptx::make_opaque(index);
  return copies_of_tile(all, groups, tile, index);
}

// Scales behind the last row and the last token block, which the first tile writes: they belong to
// no group.
__device__ __forceinline__ void fill_scale_padding(const QuantizeParams& all,
                                                   const GroupParams& groups, unsigned tile_col) {
  const std::int64_t row = groups.rows + std::int64_t{threadIdx.x};
  if (row < groups.row_scale_line) {
    all.out.scales[row * all.out.scale_strides[0] + tile_col * all.out.scale_strides[1]] = 1;
  }
  const std::int64_t block = groups.token_blocks + std::int64_t{threadIdx.x};
  if (block < groups.scale_line) {
    const QuantizedCopy& copy = all.transposed;
    copy.scales[block * groups.scale_stride + tile_col * copy.scale_strides[0]] = 1;
  }
}

// Rows behind the last group: zeros with scales of 1.
__device__ __forceinline__ void clear_tile(const QuantizeParams& own, const TokenTile& tile,
                                           const PatchPlace& place) {
  if (own.out.kind == ScaleKind::none) return;
  constexpr std::uint32_t kZeros[2] = {};
#pragma unroll 1
  for (int r = place.ty * kPatch; r < (place.ty + 1) * kPatch && tile.has(r); ++r) {
    store_edge(own.out, r, place.col0(), own.cols, kZeros);
  }
  const auto line = static_cast<int>(threadIdx.x);
  if (tile.has(line)) {
    own.out.scales[line * own.out.scale_strides[0] + place.tile_col * own.out.scale_strides[1]] = 1;
  }
}

// The input rows of a thread's patch; the tile ends before row `kAbsent`. An entry of the source
// that is no row of the input is `kUnknown`.
inline constexpr std::int32_t kAbsent = -1;
inline constexpr std::int32_t kUnknown = -2;
__device__ __forceinline__ void find_rows(const GatherParams& gather, const TokenTile& tile,
                                          const PatchPlace& place, std::int32_t (&rows)[kPatch]) {
  const int first = place.ty * kPatch;
  if (gather.source == nullptr) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) rows[i] = tile.has(first + i) ? tile.row + first + i : kAbsent;
    return;
  }
  const std::int32_t* source = gather.source + tile.row + first;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) rows[i] = tile.has(first + i) ? source[i] : 0;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const bool known = static_cast<std::uint32_t>(rows[i]) < gather.entries;
    rows[i] = !tile.has(first + i) ? kAbsent : known ? gather.slots.quotient(rows[i]) : kUnknown;
  }
}

// Loads a thread's patch, all rows in flight at once. Absent rows are zeros, unknown ones NaN.
template <Dtype kDtype>
__device__ __forceinline__ void load_rows(Patch<kDtype>& patch, const TileSource& source,
                                          const std::int32_t (&rows)[kPatch],
                                          const PatchPlace& place) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int w = 0; w < Eight<kDtype>::kWords; ++w) {
      patch.rows[i].words[w] = rows[i] == kUnknown ? ~0u : 0;
    }
  }
  if (source.whole()) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      if (rows[i] < 0) continue;
      patch.rows[i] = load_eight<kDtype>(
          element_at<kDtype>(source.matrix, rows[i], static_cast<int>(place.col0())));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      if (rows[i] >= 0) patch.rows[i] = load_edge<kDtype>(source, rows[i], place.col0());
    }
  }
}

}  // namespace octet::sm90
