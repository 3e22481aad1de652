// The scales of a tile on its way to FP8. Magnitudes are compared as integers: their order is that of
// the floats. Scales are computed once per line and shared.
#pragma once

#include "ops/quantize/cuda_sm90_patch.cuh"
#include "ops/quantize/scale.hpp"

namespace octet::sm90 {

// Elements as words of four bytes, and the largest of their magnitudes.
template <Dtype kDtype>
struct Magnitudes {
  static constexpr int kPerWord = Eight<kDtype>::kPerWord;
  static constexpr std::uint32_t kInfinity = kDtype == Dtype::f32    ? 0x7F800000
                                             : kDtype == Dtype::bf16 ? 0x7F80
                                                                     : 0x7C00;

  static __device__ __forceinline__ std::uint32_t of(std::uint32_t word, bool finite_only) {
    if constexpr (kPerWord == 1) {
      const std::uint32_t magnitude = word & 0x7FFFFFFF;
      return finite_only && magnitude >= kInfinity ? 0 : magnitude;
    } else {
      const std::uint32_t magnitude = word & 0x7FFF7FFF;
      return finite_only ? magnitude & __vcmpltu2(magnitude, kInfinity * 0x10001) : magnitude;
    }
  }
  static __device__ __forceinline__ std::uint32_t larger(std::uint32_t x, std::uint32_t y) {
    return kPerWord == 1 ? max(x, y) : __vmaxu2(x, y);
  }
  static __device__ __forceinline__ float decode(std::uint32_t bits) {
    if constexpr (kDtype == Dtype::f16) return decode_f16(bits);
    return __uint_as_float(kDtype == Dtype::f32 ? bits : bits << 16);
  }
  // The larger of the elements of one word in the low half, and of another in the high one.
  static __device__ __forceinline__ std::uint32_t join(std::uint32_t low, std::uint32_t high) {
    return __vmaxu2(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
  }
};

// Joins the maxima that the 16 threads of eight rows have of their columns. Each step gives half of
// the words away and keeps the maxima of the other half, until a word is left: that of rows
// word * kPerWord onwards, in the threads whose index begins with its number.
template <Dtype kDtype>
__device__ __forceinline__ void join_rows(
    QuantizeStorage& shared, std::uint32_t (&words)[kPatch / Magnitudes<kDtype>::kPerWord],
    const PatchPlace& place) {
  constexpr int kPerWord = Magnitudes<kDtype>::kPerWord;
  int step = 8;
#pragma unroll
  for (int half = kPatch / kPerWord / 2; half > 0; half /= 2) {
    const bool upper = place.tx & step;
#pragma unroll
    for (int w = 0; w < half; ++w) {
      const std::uint32_t given = upper ? words[w] : words[w + half];
      const std::uint32_t kept = upper ? words[w + half] : words[w];
      words[w] = Magnitudes<kDtype>::larger(kept, __shfl_xor_sync(~0u, given, step));
    }
    step /= 2;
  }
  const int sharers = 2 * step;  // threads that have the same word now
#pragma unroll
  for (; step > 0; step /= 2) {
    words[0] = Magnitudes<kDtype>::larger(words[0], __shfl_xor_sync(~0u, words[0], step));
  }
  if (place.tx % sharers == 0) {
    std::uint32_t* to = &shared.row_max[place.ty * kPatch + place.tx / sharers * kPerWord];
    if constexpr (kPerWord == 1) {
      *to = words[0];
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0] & 0xFFFF, words[0] >> 16);
    }
  }
}

// Leaves the maxima of a patch's columns, of each pair of patches one below the other.
template <Dtype kDtype>
__device__ __forceinline__ void join_columns(QuantizeStorage& shared,
                                             const std::uint32_t (&columns)[Eight<kDtype>::kWords],
                                             const PatchPlace& place) {
  constexpr int kPerWord = Magnitudes<kDtype>::kPerWord;
#pragma unroll
  for (int w = 0; w < Eight<kDtype>::kWords; ++w) {
    const std::uint32_t pair =
        Magnitudes<kDtype>::larger(columns[w], __shfl_xor_sync(~0u, columns[w], 16));
    if (place.ty % 2 != 0) continue;
    std::uint32_t* to = &shared.col_max[place.ty / 2][place.tx * kPatch + w * kPerWord];
    if constexpr (kPerWord == 1) {
      *to = pair;
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(pair & 0xFFFF, pair >> 16);
    }
  }
}

// The largest magnitude of each row and column of the tile. Returns whether this thread's elements
// are finite.
template <Dtype kDtype>
__device__ __forceinline__ bool find_maxima(QuantizeStorage& shared, const Patch<kDtype>& patch,
                                            const PatchPlace& place, bool finite_only) {
  using Of = Magnitudes<kDtype>;
  constexpr int kWords = Eight<kDtype>::kWords;
  std::uint32_t columns[kWords] = {};
  std::uint32_t rows[kPatch] = {};
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const std::uint32_t magnitudes = Of::of(patch.rows[i].words[w], finite_only);
      columns[w] = Of::larger(columns[w], magnitudes);
      rows[i] = Of::larger(rows[i], magnitudes);
    }
  }
  std::uint32_t largest = 0;
#pragma unroll
  for (int w = 0; w < kWords; ++w) largest = Of::larger(largest, columns[w]);
  join_columns<kDtype>(shared, columns, place);
  if constexpr (Of::kPerWord == 1) {
    join_rows<kDtype>(shared, rows, place);
    return largest < Of::kInfinity;
  } else {
    std::uint32_t joined[kPatch / 2];
#pragma unroll
    for (int i = 0; i < kPatch / 2; ++i) joined[i] = Of::join(rows[2 * i], rows[2 * i + 1]);
    join_rows<kDtype>(shared, joined, place);
    return max(largest >> 16, largest & 0xFFFF) < Of::kInfinity;
  }
}

// The maximum over the whole tile, in every thread.
__device__ __forceinline__ std::uint32_t tile_maximum(const QuantizeStorage& shared) {
  const unsigned lane = threadIdx.x % 32;
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kTile / 32; ++i) largest = max(largest, shared.row_max[lane + 32 * i]);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    largest = max(largest, __shfl_xor_sync(~0u, largest, step));
  }
  return largest;
}

// Where the scales of a copy's tile are: `line0` is its first of 128 lines, of which there are `lines`,
// and `slice` its number among the `slices` of a line.
struct ScalePlace {
  std::int64_t line0;
  std::int64_t lines;
  unsigned slice;
  std::int64_t slices;
};

// Writes them, each thread that of its own line; `inside`: all of the tile's lines are there.
__device__ __forceinline__ void write_scale(const QuantizedCopy& copy, const ScalePlace& place,
                                            int line, bool inside, float inverse) {
  if (copy.kind == ScaleKind::lines) {
    const bool valid = inside || place.line0 + line < place.lines;
    const bool padding = copy.owns_padding && place.line0 + line < copy.scale_pitch;
    if (valid || padding) {
      copy.scales[(place.line0 + line) * copy.scale_strides[0] +
                  place.slice * copy.scale_strides[1]] = valid ? inverse : 1.0f;
    }
  } else if (line == 0) {
    float* to = copy.scales + place.line0 / kTile * copy.scale_strides[0];
    to[place.slice * copy.scale_strides[1]] = inverse;
    if (copy.owns_padding && place.slice == place.slices - 1) {
#pragma unroll 1
      for (std::int64_t pad = place.slices; pad < copy.scale_pitch; ++pad) to[pad] = 1.0f;
    }
  }
}

// By the 128 threads of the rows, and by those of the columns: finds the scales of the lines from
// their maxima, leaves them in `scales` and writes them.
template <Dtype kDtype, int kMaxima>
__device__ __forceinline__ void find_scales(const QuantizeStorage& shared,
                                            const QuantizeParams& params, const QuantizedCopy& copy,
                                            const std::uint32_t (&maxima)[kMaxima][kTile],
                                            const ScalePlace& place, bool inside,
                                            float (&scales)[kTile]) {
  if (copy.kind == ScaleKind::none) return;
  const unsigned line = threadIdx.x % kTile;
  std::uint32_t largest = 0;
  if (copy.kind == ScaleKind::square) {
    largest = tile_maximum(shared);
  } else {
#pragma unroll
    for (int i = 0; i < kMaxima; ++i) largest = max(largest, maxima[i][line]);
  }
  const BlockScale scale = block_scale(Magnitudes<kDtype>::decode(largest), params.limit,
                                       params.amax_floor, params.pow2_scales);
  scales[line] = scale.forward;
  write_scale(copy, place, static_cast<int>(line), inside, scale.inverse);
}

template <Dtype kDtype>
__device__ __forceinline__ void share_scales(QuantizeStorage& shared, const QuantizeParams& params,
                                             const PatchPlace& place, bool inside) {
  if (threadIdx.x < kTile) {
    const auto& maxima = reinterpret_cast<const std::uint32_t(&)[1][kTile]>(shared.row_max);
    find_scales<kDtype>(
        shared, params, params.out, maxima,
        {place.tile_row0(), params.rows, place.tile_col, std::int64_t{params.tiles_across}}, inside,
        shared.row_scale);
  } else {
    find_scales<kDtype>(
        shared, params, params.transposed, shared.col_max,
        {place.tile_col0(), params.cols, place.tile_row, (params.rows + kTile - 1) / kTile}, inside,
        shared.col_scale);
  }
}

}  // namespace octet::sm90
