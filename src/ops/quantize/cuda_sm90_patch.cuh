// 128x128 tiles in registers, as the quantiser and the kernels that write FP8 hold them: each of
// 256 threads has a patch of 8 rows by 8 columns. These kernels are memory-bound and sensitive to
// the number of instructions per element, so tiles inside the matrix take a path without bounds
// checks.
#pragma once

#include "device/ptx/registers.cuh"
#include "device/rows/eight.cuh"
#include "ops/quantize/cuda_sm90_tile_layout.hpp"

namespace octet::sm90 {

enum class ScaleKind { none, lines, square };  // no copy, 1x128, 128x128

// One FP8 copy; rows, columns and lines are those of the copy.
struct QuantizedCopy {
  ScaleKind kind;
  std::uint8_t* values;
  std::int64_t pitch;
  float* scales;
  std::int64_t scale_strides[2];
  std::int64_t scale_pitch;  // length of the contiguous dimension, padding included
  bool owns_padding;         // the kernel writes it: zeros after values, ones after scales
};

struct QuantizeParams {
  Matrix input;  // [rows, cols]; empty in kernels that compute the tile
  bool aligned;  // rows of the input start on 16-byte boundaries
  std::int64_t rows;
  std::int64_t cols;
  unsigned tiles_across;  // ceil(cols / 128)
  float limit;
  float amax_floor;
  bool pow2_scales;
  QuantizedCopy out;         // [rows, cols]
  QuantizedCopy transposed;  // [cols, rows]
};

// The position of a thread's patch: its tile, and (ty, tx) in units of patches.
struct PatchPlace {
  unsigned tile_row;
  unsigned tile_col;
  int tx;
  int ty;

  __device__ PatchPlace(unsigned tile_row_, unsigned tile_col_)
      : tile_row(tile_row_),
        tile_col(tile_col_),
        tx(static_cast<int>(threadIdx.x % 16)),
        ty(static_cast<int>(threadIdx.x / 16)) {}
  __device__ std::int64_t tile_row0() const { return std::int64_t{tile_row} * kTile; }
  __device__ std::int64_t tile_col0() const { return std::int64_t{tile_col} * kTile; }
  __device__ std::int64_t row0() const { return tile_row0() + ty * kPatch; }
  __device__ std::int64_t col0() const { return tile_col0() + tx * kPatch; }
};

// Blocks per multiprocessor that registers allow the quantiser. Three blocks of 80 registers are as
// fast as four of 64 that decode each element twice: 3.8 TB/s on an H200, both copies of bf16
// 8192x8192.
template <Dtype kDtype>
inline constexpr int kResidentBlocks = kDtype == Dtype::f32 ? 2 : 3;

// of_matrix: tile_row of a matrix of params.rows rows. of_group: the first params.rows rows, at most
// 128 of one group, whose transposed copy is a token block: it is written whole, and the rows that
// are not there are zeros of the patch.
enum class TileRows { of_matrix, of_group };

// Whether the tile needs no bounds check: all of it is inside the matrix, or, in a group, all of its
// columns are.
template <TileRows kRows = TileRows::of_matrix>
__device__ __forceinline__ bool is_inside(const QuantizeParams& params, const PatchPlace& place) {
  if constexpr (kRows == TileRows::of_group) return place.tile_col0() + kTile <= params.cols;
  return place.tile_row0() + kTile <= params.rows && place.tile_col0() + kTile <= params.cols;
}

template <Dtype kDtype>
struct Patch {
  Eight<kDtype> rows[kPatch];

  __device__ __forceinline__ float value(int row, int col) const { return rows[row][col]; }
};

// Hides the values from the compiler. Otherwise it decodes the whole patch, and computes addresses
// from the place, before the branches that need them, keeps both alive and spills.
template <Dtype kDtype>
__device__ __forceinline__ void make_opaque(Patch<kDtype>& patch) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int w = 0; w < Eight<kDtype>::kWords; ++w) ptx::make_opaque(patch.rows[i].words[w]);
  }
}
__device__ __forceinline__ void make_opaque(PatchPlace& place) {
  ptx::make_opaque(place.tile_row, place.tile_col, place.tx, place.ty);
}

// The matrix [rows, cols] that a tile is read from.
struct TileSource {
  Matrix matrix;
  std::int64_t rows;
  std::int64_t cols;
  bool aligned;  // rows start on 16-byte boundaries
  bool inside;   // the whole tile is inside the matrix

  __device__ __forceinline__ bool whole() const { return aligned && inside; }
};

// Eight elements with bounds checks and for any alignment; zeros outside the matrix.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_edge(const TileSource& source, std::int64_t row,
                                                   std::int64_t col) {
  if (row >= source.rows || col >= source.cols) return {};
  const char* from = element_at<kDtype>(source.matrix, row, static_cast<int>(col));
  if (source.cols - col < kEight) {
    return load_singly<kDtype>(from, static_cast<int>(source.cols - col));
  }
  return source.aligned ? load_eight<kDtype>(from) : load_singly<kDtype>(from, kEight);
}

// Loads a thread's patch; in a whole tile all of its loads are in flight at once.
template <Dtype kDtype>
__device__ __forceinline__ void load_patch(Patch<kDtype>& patch, const TileSource& source,
                                           const PatchPlace& place) {
  const Matrix& matrix = source.matrix;
  if (source.whole()) {
    const char* from = element_at<kDtype>(matrix, place.row0(), static_cast<int>(place.col0()));
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      patch.rows[i] = load_eight<kDtype>(from);
      from += matrix.pitch * kElementBytes<kDtype>;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      patch.rows[i] = load_edge<kDtype>(source, place.row0() + i, place.col0());
    }
  }
}

struct QuantizeStorage {
  alignas(128) std::uint8_t transposed[kTile][kTile];  // (column, row), 8-byte slots permuted
  alignas(16) std::uint32_t row_max[kTile];
  alignas(16) std::uint32_t col_max[kQuantizeThreads / 32][kTile];
  alignas(16) float row_scale[kTile];
  alignas(16) float col_scale[kTile];
};

}  // namespace octet::sm90
