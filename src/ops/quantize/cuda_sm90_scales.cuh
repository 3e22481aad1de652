// The scales of a tile that is cast to FP8. Magnitudes are compared as integers, which have the
// same order as the floats. A line is a row of a copy: one thread computes its scale and shares it.
#pragma once

#include "ops/quantize/cuda_sm90_patch.cuh"
#include "ops/quantize/scale.hpp"

namespace octet::sm90 {

// Magnitudes of elements in words of four bytes, one or two per word, and their maxima.
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
    if constexpr (kDtype == Dtype::f16) return ptx::f32_from_f16_bits(bits);
    return __uint_as_float(kDtype == Dtype::f32 ? bits : bits << 16);
  }
  // Two 16-bit maxima in one word: that of the word `low` in the low half, that of `high` in the
  // high half.
  static __device__ __forceinline__ std::uint32_t reduce_two(std::uint32_t low,
                                                             std::uint32_t high) {
    return __vmaxu2(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
  }
};

// Row maxima: reduces the words that the 16 threads of eight rows have of their own columns. In
// each step a thread hands half of its words to its partner and keeps the maxima of the other half,
// until one word is left. Word w, of rows w * kPerWord onwards, ends up in threads w * sharers ...
// (w + 1) * sharers - 1.
template <Dtype kDtype>
__device__ __forceinline__ void reduce_rows(
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

// Column maxima: reduces each pair of patches, one below the other, and stores the result in shared
// memory.
template <Dtype kDtype>
__device__ __forceinline__ void reduce_columns(
    QuantizeStorage& shared, const std::uint32_t (&columns)[Eight<kDtype>::kWords],
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

// Writes the largest magnitude of each row and column of the tile to shared memory. Returns whether
// all elements of this thread are finite.
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
  reduce_columns<kDtype>(shared, columns, place);
  if constexpr (Of::kPerWord == 1) {
    reduce_rows<kDtype>(shared, rows, place);
    return largest < Of::kInfinity;
  } else {
    std::uint32_t pairs[kPatch / 2];
#pragma unroll
    for (int i = 0; i < kPatch / 2; ++i) pairs[i] = Of::reduce_two(rows[2 * i], rows[2 * i + 1]);
    reduce_rows<kDtype>(shared, pairs, place);
    return max(largest >> 16, largest & 0xFFFF) < Of::kInfinity;
  }
}

// The maximum over the whole tile; every thread gets it.
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

// The position of a tile's scales in a copy.
struct ScalePlace {
  std::int64_t line0;   // first of the tile's 128 lines
  std::int64_t lines;   // of the copy
  unsigned slice;       // of 128 columns, along a line
  std::int64_t slices;  // of a line
};

// Writes the scale of a thread's line. `inside`: all lines of the tile exist.
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

// Called by 128 threads per copy, one per line: computes the scale from the maxima of the line,
// stores it in `scales` and writes its inverse to the copy.
template <Dtype kDtype, int kMaxima>
__device__ __forceinline__ void compute_line_scales(const QuantizeStorage& shared,
                                                    const QuantizeParams& params,
                                                    const QuantizedCopy& copy,
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

// The first 128 threads take the copy in the input's orientation, the others the transposed copy.
template <Dtype kDtype, TileRows kRows>
__device__ __forceinline__ void compute_scales(QuantizeStorage& shared,
                                               const QuantizeParams& params,
                                               const PatchPlace& place, bool inside) {
  if (threadIdx.x < kTile) {
    const auto& maxima = reinterpret_cast<const std::uint32_t(&)[1][kTile]>(shared.row_max);
    compute_line_scales<kDtype>(
        shared, params, params.out, maxima,
        {place.tile_row0(), params.rows, place.tile_col, std::int64_t{params.tiles_across}},
        kRows == TileRows::of_matrix && inside, shared.row_scale);
  } else {
    compute_line_scales<kDtype>(
        shared, params, params.transposed, shared.col_max,
        {place.tile_col0(), params.cols, place.tile_row, (params.rows + kTile - 1) / kTile}, inside,
        shared.col_scale);
  }
}

}  // namespace octet::sm90
