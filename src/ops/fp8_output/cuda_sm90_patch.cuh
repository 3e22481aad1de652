// Tiles of values that a kernel has just computed, to FP8: the quantiser behind its loads. A thread of
// 256 holds a patch of 8 rows by 8 columns of a 128x128 tile (ops/quantize/cuda_sm90_tile.cuh).
#pragma once

#include "device/rows/eight.cuh"

namespace octet::sm90 {

// Declared inline before the quantiser defines it, so that more than one object may have it.
__device__ inline void store_bytes(std::uint8_t* to, std::uint32_t w0, std::uint32_t w1,
                                   std::uint32_t w2, std::uint32_t w3, int count);

}  // namespace octet::sm90

#include "ops/quantize/cuda_sm90_tile.cuh"  // NOLINT: after the declaration above

namespace octet::sm90 {

template <Dtype kDtype>
struct InputOf;
template <>
struct InputOf<Dtype::bf16> {
  using Type = Bf16;
};
template <>
struct InputOf<Dtype::f16> {
  using Type = F16;
};
template <>
struct InputOf<Dtype::f32> {
  using Type = F32;
};

// Where a thread's patch lies.
struct PatchPlace {
  std::int64_t tile_row;
  std::int64_t tile_col;
  int tx;
  int ty;

  __device__ PatchPlace(std::int64_t tile_row_, std::int64_t tile_col_)
      : tile_row(tile_row_),
        tile_col(tile_col_),
        tx(static_cast<int>(threadIdx.x) % 16),
        ty(static_cast<int>(threadIdx.x) / 16) {}
  __device__ std::int64_t row0() const { return tile_row * kTile + ty * kPatch; }
  __device__ std::int64_t col0() const { return tile_col * kTile + tx * kPatch; }
};

template <Dtype kDtype>
__device__ __forceinline__ void set_row(Patch<typename InputOf<kDtype>::Type>& patch, int row,
                                        const Eight<kDtype>& eight) {
#pragma unroll
  for (int w = 0; w < Eight<kDtype>::kWords; ++w) patch.words[row][w] = eight.words[w];
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> get_row(const Patch<typename InputOf<kDtype>::Type>& patch,
                                                 int row) {
  Eight<kDtype> eight;
#pragma unroll
  for (int w = 0; w < Eight<kDtype>::kWords; ++w) eight.words[w] = patch.words[row][w];
  return eight;
}

// Whether a tile lies wholly inside a matrix: then nothing has to be asked of its rows and columns.
__device__ __forceinline__ bool is_inside(const QuantizeParams& params, const PatchPlace& place) {
  return (place.tile_row + 1) * kTile <= params.rows && (place.tile_col + 1) * kTile <= params.cols;
}

// The copies of a tile inside the matrix.
template <bool kE5m2, bool kFinite, class Input>
__device__ __forceinline__ void write_inside(QuantizeStorage& shared, const QuantizeParams& params,
                                             const Patch<Input>& patch, const PatchPlace& place) {
  if (params.out.kind != ScaleKind::none) {
    std::uint8_t* to = params.out.values + place.row0() * params.out.pitch + place.col0();
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const float scale = shared.row_scale[place.ty * kPatch + i];
      *reinterpret_cast<uint2*>(to) =
          make_uint2(cast_four<kE5m2, kFinite>(patch.value(i, 0), patch.value(i, 1),
                                               patch.value(i, 2), patch.value(i, 3), scale),
                     cast_four<kE5m2, kFinite>(patch.value(i, 4), patch.value(i, 5),
                                               patch.value(i, 6), patch.value(i, 7), scale));
      to += params.out.pitch;
    }
  }
  if (params.transposed.kind != ScaleKind::none) {
    turn_patch<Input, kE5m2, kFinite>(shared, patch, place.tx, place.ty);
    __syncthreads();
    const int chunk = static_cast<int>(threadIdx.x) % 8;
    int col = static_cast<int>(threadIdx.x) / 8;
    std::uint8_t* to = params.transposed.values +
                       (place.tile_col * kTile + col) * params.transposed.pitch +
                       place.tile_row * kTile + chunk * 16;
#pragma unroll
    for (int pass = 0; pass < 4; ++pass) {
      const uint4 pair =
          *reinterpret_cast<const uint4*>(&shared.turned[col][turned_pair(col, chunk) * 8]);
      *reinterpret_cast<uint4*>(to) =
          turned_swapped(col) ? make_uint4(pair.z, pair.w, pair.x, pair.y) : pair;
      col += 32;
      to += 32 * params.transposed.pitch;
    }
  }
}

// Bytes of a row of a copy from `col` on, as many as there are: up to the pitch where the copy owns its
// padding, which is cleared. A call for this would cost the tile's registers.
template <int kWords>
__device__ __forceinline__ void store_edge(const QuantizedCopy& copy, std::int64_t row,
                                           std::int64_t col, std::int64_t cols,
                                           const std::uint32_t (&words)[kWords]) {
  std::uint8_t* to = copy.values + row * copy.pitch + col;
  const std::int64_t left = (copy.owns_padding ? copy.pitch : cols) - col;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    std::uint32_t word = words[w];
#pragma unroll 1
    for (int b = 4 * w; b < 4 * w + 4 && b < left; ++b) {
      to[b] = static_cast<std::uint8_t>(b < cols - col ? word : 0);
      word >>= 8;
    }
  }
}

// The copies of a tile at the edge of the matrix.
template <bool kE5m2, class Input>
__device__ __forceinline__ void write_edge(QuantizeStorage& shared, const QuantizeParams& params,
                                           const Patch<Input>& patch, const PatchPlace& place) {
  if (params.out.kind != ScaleKind::none) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const float scale = shared.row_scale[place.ty * kPatch + i];
      const std::uint32_t words[2] = {
          cast_four<kE5m2, false>(patch.value(i, 0), patch.value(i, 1), patch.value(i, 2),
                                  patch.value(i, 3), scale),
          cast_four<kE5m2, false>(patch.value(i, 4), patch.value(i, 5), patch.value(i, 6),
                                  patch.value(i, 7), scale)};
      if (place.row0() + i < params.rows) {
        store_edge(params.out, place.row0() + i, place.col0(), params.cols, words);
      }
    }
  }
  if (params.transposed.kind != ScaleKind::none) {
    turn_patch<Input, kE5m2, false>(shared, patch, place.tx, place.ty);
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < 4; ++pass) {
      const int col = pass * 32 + static_cast<int>(threadIdx.x) / 8;
      const int chunk = static_cast<int>(threadIdx.x) % 8;
      if (place.tile_col * kTile + col >= params.cols) continue;
      const uint4 pair =
          *reinterpret_cast<const uint4*>(&shared.turned[col][turned_pair(col, chunk) * 8]);
      const uint4 bytes = turned_swapped(col) ? make_uint4(pair.z, pair.w, pair.x, pair.y) : pair;
      const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
      store_edge(params.transposed, place.tile_col * kTile + col,
                 place.tile_row * kTile + chunk * 16, params.rows, words);
    }
  }
}

// Scales and copies of a tile; every thread of the block comes here. What lies outside the matrix is
// zero in the patch, or -0.
template <bool kE5m2, class Input>
__device__ __forceinline__ void quantize_patch(QuantizeStorage& shared,
                                               const QuantizeParams& params,
                                               const Patch<Input>& patch, const PatchPlace& place) {
  // Where something is not finite, the maxima are found again without it.
  const bool finite = __syncthreads_and(find_maxima(shared, patch, place.tx, place.ty, false));
  if (!finite) {
    find_maxima(shared, patch, place.tx, place.ty, true);
    __syncthreads();
  }
  share_scales<Input>(shared, params, place.tile_row, place.tile_col);
  __syncthreads();
  if (!is_inside(params, place)) {
    write_edge<kE5m2>(shared, params, patch, place);
  } else if (finite) {
    write_inside<kE5m2, true>(shared, params, patch, place);
  } else {
    write_inside<kE5m2, false>(shared, params, patch, place);
  }
}

// Eight elements at the edge of a matrix [rows, cols], or of one whose rows are not aligned; zeros
// outside.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_edge(const void* data, std::int64_t pitch,
                                                   std::int64_t row, std::int64_t col,
                                                   std::int64_t rows, std::int64_t cols) {
  if (row >= rows || col >= cols) return {};
  const char* from = static_cast<const char*>(data) + (row * pitch + col) * kElementBytes<kDtype>;
  return load_some<kDtype>(from, cols - col < kEight ? static_cast<int>(cols - col) : kEight);
}

// A row of a thread's patch; `whole`: all of the tile's rows are there and aligned.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_patch_row(const Matrix& matrix, std::int64_t row,
                                                        std::int64_t col, std::int64_t rows,
                                                        std::int64_t cols, bool whole) {
  if (!whole) return load_edge<kDtype>(matrix.data, matrix.pitch, row, col, rows, cols);
  return load_eight<kDtype>(element_at<kDtype>(matrix, row, static_cast<int>(col)));
}

}  // namespace octet::sm90
