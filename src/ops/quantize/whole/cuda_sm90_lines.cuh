// One tile of the passes over lines: what the first finds, and the copies that the second writes. The
// scale of a line is a factor in shared memory, for the out copy in `row_scale`, for the transposed
// one in `col_scale`, by row or by column of the tile.
#pragma once

#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/quantize/whole/lines.hpp"

namespace octet::sm90 {

struct LineCopy {
  LineForm form;
  std::int64_t lines;         // scales across the input: rows, columns or one
  std::int64_t line_stride;   // from the scale of a line to the next line's
  std::int64_t slice_stride;  // from the scale of 128 elements of a line to the next 128; else 0
};

struct LinesParams {
  QuantizeParams copies;  // with kind `lines` or `none`
  LineCopy out;
  LineCopy transposed;
  LineMaxima maxima;
  std::uint32_t* found;  // the maxima
  unsigned tiles;
  bool reversed;  // the second pass begins with what the first has left in the L2 cache
};

__device__ __forceinline__ bool is_by_row(const LineCopy& copy) {
  return copy.form.axis == LineAxis::row;
}
__device__ __forceinline__ bool is_by_column(const LineCopy& copy) {
  return copy.form.axis == LineAxis::column;
}

// The largest magnitude of a column of the tile.
__device__ __forceinline__ std::uint32_t column_maximum(const QuantizeStorage& shared,
                                                        unsigned col) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kQuantizeThreads / 32; ++i) largest = max(largest, shared.col_max[i][col]);
  return largest;
}

// Adds the maxima of a tile to those of its lines. Maxima of integers do not depend on their order.
__device__ __forceinline__ void add_maxima(const QuantizeStorage& shared, const LinesParams& params,
                                           const PatchPlace& place) {
  const unsigned line = threadIdx.x % kTile;
  if (threadIdx.x < kTile) {
    const std::int64_t row = place.tile_row0() + line;
    if (row < params.maxima.rows) atomicMax(&params.found[row], shared.row_max[line]);
  } else {
    const std::int64_t col = place.tile_col0() + line;
    if (col < params.maxima.cols) {
      atomicMax(&params.found[params.maxima.rows + col], column_maximum(shared, line));
    }
  }
  if (params.maxima.tensors != 0 && threadIdx.x < 32) {
    const std::uint32_t largest = tile_maximum(shared);
    if (threadIdx.x == 0) atomicMax(&params.found[params.maxima.words() - 1], largest);
  }
}

// Called by 128 threads per copy, one per line of the tile: leaves its factor in shared memory and,
// where the tile is the one that does, writes its scale and the padding behind.
template <Dtype kDtype>
__device__ __forceinline__ void find_factor(const QuantizeStorage& shared,
                                            const LinesParams& params, const LineCopy& line_copy,
                                            const QuantizedCopy& copy, const PatchPlace& place,
                                            float (&factors)[kTile]) {
  if (copy.kind == ScaleKind::none) return;
  const unsigned line = threadIdx.x % kTile;
  const LineForm form = line_copy.form;
  const bool tensor = form.axis == LineAxis::tensor;
  const bool by_row = is_by_row(line_copy);
  const unsigned slice = by_row ? place.tile_col : place.tile_row;
  const std::int64_t index =
      tensor ? line : (by_row ? place.tile_row0() : place.tile_col0()) + line;
  const bool exists = index < line_copy.lines;
  const std::int64_t own = tensor ? 0 : exists ? index : line_copy.lines - 1;
  if (form.scales == LineScales::given) {
    factors[line] = 1 / copy.scales[own * line_copy.line_stride + slice * line_copy.slice_stride];
    return;
  }
  std::uint32_t largest = 0;
  if (form.scales == LineScales::whole) {
    largest = params.found[params.maxima.offset(form.axis) + own];
  } else {
    largest = by_row ? shared.row_max[line] : column_maximum(shared, line);
  }
  const BlockScale scale = block_scale(Magnitudes<kDtype>::decode(largest), params.copies.limit,
                                       params.copies.amax_floor, params.copies.pow2_scales);
  factors[line] = scale.forward;
  const bool first_tile = tensor ? (place.tile_row | place.tile_col) == 0 : slice == 0;
  if (form.scales == LineScales::whole && !first_tile) return;
  if (exists || (copy.owns_padding && index < copy.scale_pitch)) {
    copy.scales[index * line_copy.line_stride + slice * line_copy.slice_stride] =
        exists ? scale.inverse : 1.0f;
  }
}

template <Dtype kDtype>
__device__ __forceinline__ bool is_finite(const Patch<kDtype>& patch) {
  using Of = Magnitudes<kDtype>;
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int w = 0; w < Eight<kDtype>::kWords; ++w) {
      largest = Of::larger(largest, Of::of(patch.rows[i].words[w], false));
    }
  }
  return max(largest >> 16, largest & 0xFFFF) < Of::kInfinity;
}

// x * factor to two bytes. Unlike cast_pair(), asks x whether it is finite: a given scale may make a
// finite one overflow, which saturates.
template <bool kE5m2>
__device__ __forceinline__ std::uint32_t cast_two(float low, float high, float low_factor,
                                                  float high_factor) {
  float p0 = __fmul_rn(low, low_factor);
  float p1 = __fmul_rn(high, high_factor);
  if constexpr (kE5m2) {
    std::uint32_t codes = ptx::e5m2x2_from_f32(p0, p1);
    if (isinf(low)) codes += 1;  // 0x7B, the largest finite value, to 0x7C
    if (isinf(high)) codes += 0x100;
    return codes;
  } else {
    p0 = __fmaf_rn(low, 0.0f, p0);  // NaN where x is infinite
    p1 = __fmaf_rn(high, 0.0f, p1);
    return ptx::e4m3x2_from_f32(p0, p1);
  }
}

template <bool kE5m2>
__device__ __forceinline__ void cast_line(const float (&x)[kPatch], const float (&factors)[kPatch],
                                          std::uint32_t (&words)[2]) {
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    const int c = 4 * w;
    words[w] = cast_two<kE5m2>(x[c], x[c + 1], factors[c], factors[c + 1]) |
               cast_two<kE5m2>(x[c + 2], x[c + 3], factors[c + 2], factors[c + 3]) << 16;
  }
}

// Writes both copies of any tile, with factors of either axis.
template <bool kE5m2, Dtype kDtype>
__device__ __forceinline__ void write_any(QuantizeStorage& shared, const LinesParams& params,
                                          const Patch<kDtype>& patch, const PatchPlace& place) {
  const QuantizeParams& copies = params.copies;
  const int row = place.ty * kPatch;
  const int col = place.tx * kPatch;
  if (copies.out.kind != ScaleKind::none) {
    const bool by_column = is_by_column(params.out);
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float x[kPatch];
      float factors[kPatch];
#pragma unroll
      for (int j = 0; j < kPatch; ++j) {
        x[j] = patch.value(i, j);
        factors[j] = shared.row_scale[by_column ? col + j : row + i];
      }
      std::uint32_t words[2];
      cast_line<kE5m2>(x, factors, words);
      if (place.row0() + i < copies.rows) {
        store_edge(copies.out, place.row0() + i, place.col0(), copies.cols, words);
      }
    }
  }
  if (copies.transposed.kind != ScaleKind::none) {
    const bool by_row = is_by_row(params.transposed);
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      float x[kPatch];
      float factors[kPatch];
#pragma unroll
      for (int i = 0; i < kPatch; ++i) {
        x[i] = patch.value(i, j);
        factors[i] = shared.col_scale[by_row ? row + i : col + j];
      }
      std::uint32_t words[2];
      cast_line<kE5m2>(x, factors, words);
      column_slot(shared, place, j) = make_uint2(words[0], words[1]);
    }
    __syncthreads();
    write_transposed_edge(shared, copies, place, copies.rows);
  }
}

}  // namespace octet::sm90
