// Tiles of 128x128 on their way to FP8, as the quantiser and the kernels that write FP8 have them: a
// thread of 256 holds a patch of 8 rows by 8 columns. Bound by memory, and by how few instructions an
// element costs: nothing is asked of the rows and columns of a tile inside the matrix.
#pragma once

#include "device/rows/eight.cuh"
#include "ops/quantize/cuda_sm90_tile_layout.hpp"

namespace octet::sm90 {

enum class ScaleKind { none, lines, square };  // no copy, 1x128, 128x128

// One FP8 copy, in its own orientation.
struct QuantizedCopy {
  ScaleKind kind;
  std::uint8_t* values;
  std::int64_t pitch;
  float* scales;
  std::int64_t scale_strides[2];
  std::int64_t scale_pitch;  // lines of the contiguous dimension, padding included
  bool owns_padding;
};

struct QuantizeParams {
  Matrix input;  // [rows, cols]; kernels that compute it have none
  bool aligned;  // the input's rows, to 16 bytes
  std::int64_t rows;
  std::int64_t cols;
  unsigned tiles_across;  // ceil(cols / 128)
  float limit;
  float amax_floor;
  bool pow2_scales;
  QuantizedCopy out;         // [rows, cols]
  QuantizedCopy transposed;  // [cols, rows]
};

// Where a thread's patch lies.
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

// Whether a tile lies wholly inside the matrix.
__device__ __forceinline__ bool is_inside(const QuantizeParams& params, const PatchPlace& place) {
  return place.tile_row0() + kTile <= params.rows && place.tile_col0() + kTile <= params.cols;
}

template <Dtype kDtype>
struct Patch {
  Eight<kDtype> rows[kPatch];

  __device__ __forceinline__ float value(int row, int col) const { return rows[row][col]; }
};

// The compiler is not to know a patch or a place any more: it would decode all of the one, and keep
// what it has found out about the other, over the branches until they are needed, and spill.
template <Dtype kDtype>
__device__ __forceinline__ void hide(Patch<kDtype>& patch) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int w = 0; w < Eight<kDtype>::kWords; ++w) asm volatile("" : "+r"(patch.rows[i].words[w]));
  }
}
__device__ __forceinline__ void hide(PatchPlace& place) {
  asm volatile("" : "+r"(place.tile_row), "+r"(place.tile_col), "+r"(place.tx), "+r"(place.ty));
}

// A matrix [rows, cols] that tiles are read from.
struct TileSource {
  Matrix matrix;
  std::int64_t rows;
  std::int64_t cols;
  bool aligned;  // rows, to 16 bytes
  bool inside;   // the tile, in the matrix

  __device__ __forceinline__ bool whole() const { return aligned && inside; }
};

// Eight elements at the edge of a matrix, or of one whose rows are not aligned; zeros outside.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_edge(const TileSource& source, std::int64_t row,
                                                   std::int64_t col) {
  if (row >= source.rows || col >= source.cols) return {};
  const char* from = element_at<kDtype>(source.matrix, row, static_cast<int>(col));
  if (source.cols - col < kEight) {
    return load_some<kDtype>(from, static_cast<int>(source.cols - col));
  }
  return source.aligned ? load_eight<kDtype>(from) : load_some<kDtype>(from, kEight);
}

// A thread's patch; where the tile is whole, all of it is under way at once.
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
  alignas(128) std::uint8_t turned[kTile][kTile];  // (column, row), 8-byte slots exchanged
  alignas(16) std::uint32_t row_max[kTile];
  alignas(16) std::uint32_t col_max[kQuantizeThreads / 32][kTile];
  alignas(16) float row_scale[kTile];
  alignas(16) float col_scale[kTile];
};

}  // namespace octet::sm90
