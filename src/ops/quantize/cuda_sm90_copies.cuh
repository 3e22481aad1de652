// The FP8 copies of a tile. The copy in the input's orientation is stored from registers; the
// transposed copy is transposed in shared memory.
#pragma once

#include "ops/quantize/cuda_sm90_scales.cuh"

namespace octet::sm90 {

// x * scale to two bytes, the first in the low one. The instruction turns NaN to 0x7F and saturates
// infinities, but an infinity must not look finite: in e4m3 it becomes NaN first (p * 0 + p is p,
// or NaN where p is infinite), in e5m2 it gets its own code. kFinite: the tile has none, which
// saves these instructions.
template <bool kE5m2, bool kFinite>
__device__ __forceinline__ std::uint32_t cast_pair(float low, float high, float scale) {
  float p0 = __fmul_rn(low, scale);
  float p1 = __fmul_rn(high, scale);
  if constexpr (kE5m2) {
    std::uint32_t codes = ptx::e5m2x2_from_f32(p0, p1);
    if (!kFinite && isinf(p0)) codes += 1;  // 0x7B, the largest finite value, to 0x7C
    if (!kFinite && isinf(p1)) codes += 0x100;
    return codes;
  } else {
    if constexpr (!kFinite) {
      p0 = __fmaf_rn(p0, 0.0f, p0);
      p1 = __fmaf_rn(p1, 0.0f, p1);
    }
    return ptx::e4m3x2_from_f32(p0, p1);
  }
}

template <bool kE5m2, bool kFinite>
__device__ __forceinline__ std::uint32_t cast_four(float x0, float x1, float x2, float x3,
                                                   float scale) {
  return cast_pair<kE5m2, kFinite>(x0, x1, scale) | cast_pair<kE5m2, kFinite>(x2, x3, scale) << 16;
}

template <bool kE5m2, bool kFinite>
__device__ __forceinline__ uint2 cast_eight(const float (&x)[kPatch], float scale) {
  return make_uint2(cast_four<kE5m2, kFinite>(x[0], x[1], x[2], x[3], scale),
                    cast_four<kE5m2, kFinite>(x[4], x[5], x[6], x[7], scale));
}

// How the copies are kept in the L2 cache. evict_first: for kernels whose input is to stay there
// until they read it again.
enum class L2Hint { normal, evict_first };

template <L2Hint kHint, class Vector>
__device__ __forceinline__ void store_vector(std::uint8_t* to, const Vector& vector) {
  if constexpr (kHint == L2Hint::normal) {
    *reinterpret_cast<Vector*>(to) = vector;
  } else {
    ptx::store_global(to, vector, ptx::evict_first_policy());
  }
}

// The slot of shared memory for column j of a thread's patch.
__device__ __forceinline__ uint2& column_slot(QuantizeStorage& shared, const PatchPlace& place,
                                              int j) {
  const int col = place.tx * kPatch + j;
  return *reinterpret_cast<uint2*>(&shared.transposed[col][slot_of_rows(col, place.ty) * 8]);
}

// Sixteen rows of a column of the transposed tile, from row 16 * chunk on.
__device__ __forceinline__ uint4 load_chunk(const QuantizeStorage& shared, int col, int chunk,
                                            bool swapped) {
  const uint4 pair =
      *reinterpret_cast<const uint4*>(&shared.transposed[col][slot_of_chunk(col, chunk) * 8]);
  return swapped ? make_uint4(pair.z, pair.w, pair.x, pair.y) : pair;
}

// Writes the transposed copy of a tile inside the matrix from shared memory.
template <L2Hint kHint>
__device__ __forceinline__ void write_transposed(const QuantizeStorage& shared,
                                                 const QuantizedCopy& copy,
                                                 const PatchPlace& place) {
  const auto chunk = static_cast<int>(threadIdx.x % 8);
  auto col = static_cast<int>(threadIdx.x / 8);
  std::uint8_t* to =
      copy.values + (place.tile_col0() + col) * copy.pitch + place.tile_row0() + chunk * 16;
  const bool swapped = has_swapped_slots(col);  // the same 32 columns further
#pragma unroll
  for (int pass = 0; pass < 4; ++pass) {
    store_vector<kHint>(to, load_chunk(shared, col, chunk, swapped));
    col += 32;
    to += 32 * copy.pitch;
  }
}

// Writes the copies of a finite tile inside the matrix, two rows at a time, so that each element is
// decoded only once for both copies. Of a tile of a group, rows that are not there are not stored.
template <bool kE5m2, bool kOut, bool kTransposed, L2Hint kHint, TileRows kRows, Dtype kDtype>
__device__ __forceinline__ void write_inside(QuantizeStorage& shared, const QuantizeParams& params,
                                             Patch<kDtype> patch, const PatchPlace& place) {
  make_opaque(patch);
  std::uint8_t* out = params.out.values + place.row0() * params.out.pitch + place.col0();
  std::uint32_t columns[kPatch][2] = {};  // eight rows of each column, as bytes
#pragma unroll
  for (int i = 0; i < kPatch; i += 2) {
    float low[kPatch];
    float high[kPatch];
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      low[j] = patch.value(i, j);
      high[j] = patch.value(i + 1, j);
    }
    if constexpr (kOut) {
      const float* scales = &shared.row_scale[place.ty * kPatch + i];
      if constexpr (kRows == TileRows::of_matrix) {
        store_vector<kHint>(out, cast_eight<kE5m2, true>(low, scales[0]));
        store_vector<kHint>(out + params.out.pitch, cast_eight<kE5m2, true>(high, scales[1]));
      } else {
        const std::int64_t rows = params.rows - place.ty * kPatch - i;
        if (rows > 0) store_vector<kHint>(out, cast_eight<kE5m2, true>(low, scales[0]));
        if (rows > 1) {
          store_vector<kHint>(out + params.out.pitch, cast_eight<kE5m2, true>(high, scales[1]));
        }
      }
      out += 2 * params.out.pitch;
    }
    if constexpr (kTransposed) {
#pragma unroll
      for (int j = 0; j < kPatch; ++j) {
        const float scale = shared.col_scale[place.tx * kPatch + j];
        columns[j][i / 4] |= cast_pair<kE5m2, true>(low[j], high[j], scale) << (8 * (i % 4));
      }
    }
  }
  if constexpr (kTransposed) {
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      column_slot(shared, place, j) = make_uint2(columns[j][0], columns[j][1]);
    }
    __syncthreads();
    write_transposed<kHint>(shared, params.transposed, place);
  }
}

// Stores the bytes of a row of a copy from `col` on, at most up to column `cols`. Where the copy
// owns its padding, clears it up to the pitch.
template <int kWords>
__device__ __forceinline__ void store_edge(const QuantizedCopy& copy, std::int64_t row,
                                           std::int64_t col, std::int64_t cols,
                                           const std::uint32_t (&words)[kWords]) {
  std::uint8_t* to = copy.values + row * copy.pitch + col;
  if (cols - col >= 4 * kWords) {
#pragma unroll
    for (int w = 0; w < kWords; w += 2) {
      reinterpret_cast<uint2*>(to)[w / 2] = make_uint2(words[w], words[w + 1]);
    }
    return;
  }
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

// The transposed copy of a tile at the edge of the matrix, which ends after `rows`, from shared memory.
// Every thread has filled its column_slot() before.
__device__ __forceinline__ void write_transposed_edge(const QuantizeStorage& shared,
                                                      const QuantizeParams& params,
                                                      const PatchPlace& place, std::int64_t rows) {
#pragma unroll 1
  for (int pass = 0; pass < 4; ++pass) {
    const auto col = static_cast<int>(pass * 32 + threadIdx.x / 8);
    const auto chunk = static_cast<int>(threadIdx.x % 8);
    if (place.tile_col0() + col >= params.cols) continue;
    const uint4 bytes = load_chunk(shared, col, chunk, has_swapped_slots(col));
    const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    store_edge(params.transposed, place.tile_col0() + col, place.tile_row0() + chunk * 16, rows,
               words);
  }
}

// Writes the copies of a tile at the edge of the matrix, or of one with elements that are not
// finite.
template <bool kE5m2, TileRows kRows, Dtype kDtype>
__device__ __forceinline__ void write_edge(QuantizeStorage& shared, const QuantizeParams& params,
                                           const Patch<kDtype>& patch, const PatchPlace& place) {
  if (params.out.kind != ScaleKind::none) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float x[kPatch];
#pragma unroll
      for (int j = 0; j < kPatch; ++j) x[j] = patch.value(i, j);
      const uint2 bytes = cast_eight<kE5m2, false>(x, shared.row_scale[place.ty * kPatch + i]);
      const std::uint32_t words[2] = {bytes.x, bytes.y};
      if (place.row0() + i < params.rows) {
        store_edge(params.out, place.row0() + i, place.col0(), params.cols, words);
      }
    }
  }
  if (params.transposed.kind != ScaleKind::none) {
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      float x[kPatch];
#pragma unroll
      for (int i = 0; i < kPatch; ++i) x[i] = patch.value(i, j);
      column_slot(shared, place, j) =
          cast_eight<kE5m2, false>(x, shared.col_scale[place.tx * kPatch + j]);
    }
    __syncthreads();
    write_transposed_edge(shared, params, place, kRows == TileRows::of_group ? kTile : params.rows);
  }
}

// Computes the scales of a tile and writes its copies; every thread of the block calls it. Elements
// outside the matrix are 0 or -0 in the patch, rows that a group has not are 0.
template <bool kE5m2, L2Hint kHint = L2Hint::normal, TileRows kRows = TileRows::of_matrix,
          Dtype kDtype>
__device__ __forceinline__ void quantize_patch(QuantizeStorage& shared,
                                               const QuantizeParams& params,
                                               const Patch<kDtype>& patch,
                                               const PatchPlace& place) {
  const bool inside = is_inside<kRows>(params, place);
  const bool finite = __syncthreads_and(find_maxima(shared, patch, place, false));
  if (!finite) {  // find the maxima again, over the finite elements only
    Patch<kDtype> copy = patch;
    make_opaque(copy);
    find_maxima(shared, copy, place, true);
    __syncthreads();
  }
  compute_scales<kDtype, kRows>(shared, params, place, inside);
  __syncthreads();
  if (!finite || !inside) {
    write_edge<kE5m2, kRows>(shared, params, patch, place);
  } else if (params.transposed.kind == ScaleKind::none) {
    write_inside<kE5m2, true, false, kHint, kRows>(shared, params, patch, place);
  } else if (params.out.kind == ScaleKind::none) {
    write_inside<kE5m2, false, true, kHint, kRows>(shared, params, patch, place);
  } else {
    write_inside<kE5m2, true, true, kHint, kRows>(shared, params, patch, place);
  }
}

}  // namespace octet::sm90
