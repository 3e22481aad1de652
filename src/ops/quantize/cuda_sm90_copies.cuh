// The FP8 copies of a tile: that in the input's orientation leaves from registers, the transposed one
// is turned in shared memory.
#pragma once

#include "ops/quantize/cuda_sm90_scales.cuh"

namespace octet::sm90 {

// x * scale to two bytes, the first in the low one. The instruction turns NaN to 0x7F and saturates
// infinities, which must not look finite: in e4m3 they are made NaN (p * 0 + p is p, or NaN where p
// is infinite), in e5m2 they get their own code. A tile without any is spared that.
template <bool kE5m2, bool kFinite>
__device__ __forceinline__ std::uint32_t cast_pair(float low, float high, float scale) {
  float p0 = __fmul_rn(low, scale);
  float p1 = __fmul_rn(high, scale);
  std::uint16_t pair;
  if constexpr (kE5m2) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(p1), "f"(p0));
    std::uint32_t codes = pair;
    if (!kFinite && isinf(p0)) codes += 1;  // 0x7B, the largest finite value, to 0x7C
    if (!kFinite && isinf(p1)) codes += 0x100;
    return codes;
  } else {
    if constexpr (!kFinite) {
      p0 = __fmaf_rn(p0, 0.0f, p0);
      p1 = __fmaf_rn(p1, 0.0f, p1);
    }
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(p1), "f"(p0));
    return pair;
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

// How long what is written stays in the L2 cache: as all does, or only as long as there is room for it,
// where a kernel has something there that it will read again.
enum class Stay { normal, brief };

template <Stay kStay, class Vector>
__device__ __forceinline__ void store_vector(std::uint8_t* to, const Vector& vector) {
  if constexpr (kStay == Stay::normal) {
    *reinterpret_cast<Vector*>(to) = vector;
  } else {
    std::uint64_t brief;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(brief));
    if constexpr (sizeof(Vector) == sizeof(uint2)) {
      asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(vector.x),
                   "r"(vector.y), "l"(brief)
                   : "memory");
    } else {
      asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
                   "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w), "l"(brief)
                   : "memory");
    }
  }
}

__device__ __forceinline__ uint2& turned_slot_of(QuantizeStorage& shared, const PatchPlace& place,
                                                 int j) {
  const int col = place.tx * kPatch + j;
  return *reinterpret_cast<uint2*>(&shared.turned[col][turned_slot(col, place.ty) * 8]);
}

// Sixteen rows of a column of the turned tile, from row 16 * chunk on.
__device__ __forceinline__ uint4 turned_rows(const QuantizeStorage& shared, int col, int chunk,
                                             bool swapped) {
  const uint4 pair =
      *reinterpret_cast<const uint4*>(&shared.turned[col][turned_pair(col, chunk) * 8]);
  return swapped ? make_uint4(pair.z, pair.w, pair.x, pair.y) : pair;
}

// The transposed copy of a tile inside the matrix, from the turned one.
template <Stay kStay>
__device__ __forceinline__ void write_turned(const QuantizeStorage& shared,
                                             const QuantizedCopy& copy, const PatchPlace& place) {
  const auto chunk = static_cast<int>(threadIdx.x % 8);
  auto col = static_cast<int>(threadIdx.x / 8);
  std::uint8_t* to =
      copy.values + (place.tile_col0() + col) * copy.pitch + place.tile_row0() + chunk * 16;
  const bool swapped = turned_swapped(col);  // and so in every pass
#pragma unroll
  for (int pass = 0; pass < 4; ++pass) {
    store_vector<kStay>(to, turned_rows(shared, col, chunk, swapped));
    col += 32;
    to += 32 * copy.pitch;
  }
}

// The copies of a finite tile inside the matrix, two rows at a time, so that each element is decoded
// once for both.
template <bool kE5m2, bool kOut, bool kTurned, Stay kStay, Dtype kDtype>
__device__ __forceinline__ void write_inside(QuantizeStorage& shared, const QuantizeParams& params,
                                             Patch<kDtype> patch, const PatchPlace& place) {
  hide(patch);
  std::uint8_t* out = params.out.values + place.row0() * params.out.pitch + place.col0();
  std::uint32_t turned[kPatch][2] = {};
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
      store_vector<kStay>(out, cast_eight<kE5m2, true>(low, scales[0]));
      store_vector<kStay>(out + params.out.pitch, cast_eight<kE5m2, true>(high, scales[1]));
      out += 2 * params.out.pitch;
    }
    if constexpr (kTurned) {
#pragma unroll
      for (int j = 0; j < kPatch; ++j) {
        const float scale = shared.col_scale[place.tx * kPatch + j];
        turned[j][i / 4] |= cast_pair<kE5m2, true>(low[j], high[j], scale) << (8 * (i % 4));
      }
    }
  }
  if constexpr (kTurned) {
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      turned_slot_of(shared, place, j) = make_uint2(turned[j][0], turned[j][1]);
    }
    __syncthreads();
    write_turned<kStay>(shared, params.transposed, place);
  }
}

// Bytes of a row of a copy from `col` on, as many as there are: up to the pitch where the copy owns its
// padding, which is cleared.
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

// The copies of a tile at the edge of the matrix, or with something in it that is not finite.
template <bool kE5m2, Dtype kDtype>
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
      turned_slot_of(shared, place, j) =
          cast_eight<kE5m2, false>(x, shared.col_scale[place.tx * kPatch + j]);
    }
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < 4; ++pass) {
      const auto col = static_cast<int>(pass * 32 + threadIdx.x / 8);
      const auto chunk = static_cast<int>(threadIdx.x % 8);
      if (place.tile_col0() + col >= params.cols) continue;
      const uint4 bytes = turned_rows(shared, col, chunk, turned_swapped(col));
      const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
      store_edge(params.transposed, place.tile_col0() + col, place.tile_row0() + chunk * 16,
                 params.rows, words);
    }
  }
}

// Scales and copies of a tile; every thread of the block comes here. What lies outside the matrix is
// zero in the patch, or -0.
template <bool kE5m2, Stay kStay = Stay::normal, Dtype kDtype>
__device__ __forceinline__ void quantize_patch(QuantizeStorage& shared,
                                               const QuantizeParams& params,
                                               const Patch<kDtype>& patch,
                                               const PatchPlace& place) {
  const bool inside = is_inside(params, place);
  // Where something is not finite, the maxima are found again without it.
  const bool finite = __syncthreads_and(find_maxima(shared, patch, place, false));
  if (!finite) {
    Patch<kDtype> again = patch;
    hide(again);
    find_maxima(shared, again, place, true);
    __syncthreads();
  }
  share_scales<kDtype>(shared, params, place, inside);
  __syncthreads();
  if (!finite || !inside) {
    write_edge<kE5m2>(shared, params, patch, place);
  } else if (params.transposed.kind == ScaleKind::none) {
    write_inside<kE5m2, true, false, kStay>(shared, params, patch, place);
  } else if (params.out.kind == ScaleKind::none) {
    write_inside<kE5m2, false, true, kStay>(shared, params, patch, place);
  } else {
    write_inside<kE5m2, true, true, kStay>(shared, params, patch, place);
  }
}

}  // namespace octet::sm90
