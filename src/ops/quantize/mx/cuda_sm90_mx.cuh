// A 128x128 tile in mx blocks: 1x32 ones of either orientation, or 32x32, each with an exponent of its
// own, and the same values folded into blocks of 128. A block of 32 is four patches wide.
#pragma once

#include "device/ptx/fp8_halves.cuh"
#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/quantize/mx/fold.hpp"
#include "ops/quantize/mx_scale.hpp"

namespace octet::sm90 {

inline constexpr int kMxTile = kTile / static_cast<int>(kMxBlock);  // blocks along a line of a tile
inline constexpr int kMxPatches = static_cast<int>(kMxBlock) / kPatch;
inline constexpr int kMxPitch = kTile + 4;  // lines apart, so that four blocks do not share banks

struct MxScales {
  std::uint8_t* first;  // null if folded
  std::int64_t strides[2];
  std::int64_t rows;   // of the scales
  std::int64_t cols;   // of the scales
  std::int64_t pitch;  // contiguous columns, padding included
};

struct MxParams {
  QuantizeParams copies;  // `lines` for 1x32 blocks, `square` for 32x32
  MxRule rule;
  MxScales out;
  MxScales transposed;
};

struct MxStorage {
  QuantizeStorage tile;
  alignas(16) std::uint32_t row_max[kMxTile][kMxPitch];  // (block, row)
  std::uint32_t square_max[kMxTile][kMxTile];            // (block of rows, block of columns)
  struct Lines {
    alignas(16) float factor[kMxTile][kMxPitch];        // (block, line): 2^-exponent
    alignas(16) std::uint32_t fold[kMxTile][kMxPitch];  // what values are folded by
  };
  Lines out;
  Lines transposed;
};

// The largest magnitudes of 32 columns of each row; those of the columns are of 16 rows, in
// tile.col_max. Returns whether all elements of this thread are finite.
template <Dtype kDtype>
__device__ __forceinline__ bool find_mx_maxima(MxStorage& shared, const Patch<kDtype>& patch,
                                               const PatchPlace& place, bool finite_only) {
  using Of = Magnitudes<kDtype>;
  static_assert(Of::kPerWord == 2);
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
  reduce_columns<kDtype>(shared.tile, columns, place);

  // Four threads have a block's columns of eight rows. Each hands half of its words on, twice.
  std::uint32_t pairs[kPatch / 2];
#pragma unroll
  for (int i = 0; i < kPatch / 2; ++i) pairs[i] = Of::reduce_two(rows[2 * i], rows[2 * i + 1]);
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {
    const bool upper = place.tx & step;
#pragma unroll
    for (int w = 0; w < step; ++w) {
      const std::uint32_t given = upper ? pairs[w] : pairs[w + step];
      const std::uint32_t kept = upper ? pairs[w + step] : pairs[w];
      pairs[w] = Of::larger(kept, __shfl_xor_sync(~0u, given, step));
    }
  }
  const int row = place.ty * kPatch + 2 * (place.tx % kMxPatches);
  *reinterpret_cast<uint2*>(&shared.row_max[place.tx / kMxPatches][row]) =
      make_uint2(pairs[0] & 0xFFFF, pairs[0] >> 16);
  return max(largest >> 16, largest & 0xFFFF) < Of::kInfinity;
}

// The maxima of the 32x32 blocks, two per warp.
__device__ __forceinline__ void find_square_maxima(MxStorage& shared) {
  const unsigned warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned square = 2 * warp + i;
    const unsigned rows = square / kMxTile;
    const unsigned cols = square % kMxTile;
    const std::uint32_t largest =
        __reduce_max_sync(~0u, shared.row_max[cols][rows * 32 + threadIdx.x % 32]);
    if (threadIdx.x % 32 == 0) shared.square_max[rows][cols] = largest;
  }
}

// Writes the four scales of a line of the tile, one byte each, and the padding behind them.
__device__ __forceinline__ void write_mx_scales(const MxScales& scales, bool owns_padding,
                                                std::int64_t row, unsigned slice,
                                                const int (&exponents)[kMxTile]) {
  if (row >= scales.rows) return;
  std::uint8_t* to = scales.first + row * scales.strides[0];
  const std::int64_t first = std::int64_t{slice} * kMxTile;
#pragma unroll
  for (int b = 0; b < kMxTile; ++b) {
    const std::int64_t col = first + b;
    if (col < scales.cols) {
      to[col * scales.strides[1]] = static_cast<std::uint8_t>(exponents[b] + kMxBias);
    }
  }
  if (!owns_padding || first + kMxTile < scales.cols) return;
#pragma unroll 1
  for (std::int64_t pad = scales.cols; pad < scales.pitch; ++pad) to[pad] = kMxBias;
}

// Called by 128 threads per copy, one per line of the tile.
template <Dtype kDtype, bool kE5m2, bool kFold, bool kTransposed>
__device__ __forceinline__ void find_mx_scales(const MxStorage& shared, const MxParams& params,
                                               const QuantizedCopy& copy, const MxScales& scales,
                                               const ScalePlace& place, bool inside,
                                               MxStorage::Lines& lines) {
  if (copy.kind == ScaleKind::none) return;
  const bool square = copy.kind == ScaleKind::square;
  const auto line = static_cast<int>(threadIdx.x % kTile);
  std::uint32_t maxima[kMxTile];
  std::uint32_t largest = 0;
#pragma unroll
  for (int b = 0; b < kMxTile; ++b) {
    if (square) {
      maxima[b] = kTransposed ? shared.square_max[b][line / 32] : shared.square_max[line / 32][b];
    } else if constexpr (kTransposed) {
      maxima[b] = max(shared.tile.col_max[2 * b][line], shared.tile.col_max[2 * b + 1][line]);
    } else {
      maxima[b] = shared.row_max[b][line];
    }
    largest = max(largest, maxima[b]);
  }
  int exponents[kMxTile];
#pragma unroll
  for (int b = 0; b < kMxTile; ++b) {
    exponents[b] = mx_exponent(Magnitudes<kDtype>::decode(maxima[b]), params.rule);
    lines.factor[b][line] = power_of_two(-exponents[b]);
  }
  if constexpr (kFold) {
    if (square) {
#pragma unroll 1
      for (int i = 0; i < kMxTile * kMxTile; ++i) {
        largest = max(largest, shared.square_max[i / kMxTile][i % kMxTile]);
      }
    }
    const int most = mx_exponent(Magnitudes<kDtype>::decode(largest), params.rule);
#pragma unroll
    for (int b = 0; b < kMxTile; ++b) {
      lines.fold[b][line] = fold_factors(most - exponents[b], kE5m2);
    }
    write_scale(copy, place, line, inside, power_of_two(most));
  } else if (!square) {
    write_mx_scales(scales, copy.owns_padding, place.line0 + line, place.slice, exponents);
  } else if (line % 32 == 0) {
    write_mx_scales(scales, copy.owns_padding, (place.line0 + line) / 32, place.slice, exponents);
  }
}

// Four codes times 2^-shift. kFinite: none of them is infinite.
template <bool kE5m2, bool kFinite>
__device__ __forceinline__ std::uint32_t fold_four(std::uint32_t codes, std::uint32_t factors) {
  std::uint32_t folded = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto pair = static_cast<std::uint16_t>(codes >> (16 * half));
    if constexpr (kE5m2) {
      const std::uint32_t first = __byte_perm(factors, 0, 0x1010);
      const std::uint32_t second = __byte_perm(factors, 0, 0x3232);
      const std::uint32_t once = ptx::multiply_halves(ptx::halves_from_e5m2x2(pair), first);
      folded |= std::uint32_t{ptx::e5m2x2_from_halves(ptx::multiply_halves(once, second))}
                << (16 * half);
    } else {
      folded |= std::uint32_t{ptx::e4m3x2_from_halves(
                    ptx::multiply_halves(ptx::halves_from_e4m3x2(pair), factors))}
                << (16 * half);
    }
  }
  if constexpr (kE5m2 && !kFinite) {
    const std::uint32_t infinite = __vcmpeq4(codes & 0x7F7F7F7F, 0x7C7C7C7C);
    folded = (folded & ~infinite) | (codes & infinite);
  }
  return folded;
}

template <bool kE5m2, bool kFold, bool kFinite>
__device__ __forceinline__ uint2 cast_mx(const float (&x)[kPatch], const MxStorage::Lines& lines,
                                         int block, int line) {
  uint2 codes = cast_eight<kE5m2, kFinite>(x, lines.factor[block][line]);
  if constexpr (kFold) {
    ptx::make_opaque(codes.x);  // no factors are loaded ahead: they spill
    ptx::make_opaque(codes.y);
    const std::uint32_t factors = lines.fold[block][line];
    codes.x = fold_four<kE5m2, kFinite>(codes.x, factors);
    codes.y = fold_four<kE5m2, kFinite>(codes.y, factors);
  }
  return codes;
}

// The copies of a finite tile inside the matrix, two rows at a time.
template <bool kE5m2, bool kFold, bool kOut, bool kTransposed, Dtype kDtype>
__device__ __forceinline__ void write_mx_inside(MxStorage& shared, const QuantizeParams& copies,
                                                Patch<kDtype> patch, const PatchPlace& place) {
  make_opaque(patch);
  std::uint8_t* out = copies.out.values + place.row0() * copies.out.pitch + place.col0();
  const int row = place.ty * kPatch;
  const int col = place.tx * kPatch;
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
      const int block = place.tx / kMxPatches;
      store_vector<L2Hint::normal>(out,
                                   cast_mx<kE5m2, kFold, true>(low, shared.out, block, row + i));
      store_vector<L2Hint::normal>(
          out + copies.out.pitch,
          cast_mx<kE5m2, kFold, true>(high, shared.out, block, row + i + 1));
      out += 2 * copies.out.pitch;
    }
    if constexpr (kTransposed) {
#pragma unroll
      for (int j = 0; j < kPatch; ++j) {
        const float factor = shared.transposed.factor[place.ty / kMxPatches][col + j];
        columns[j][i / 4] |= cast_pair<kE5m2, true>(low[j], high[j], factor) << (8 * (i % 4));
      }
    }
  }
  if constexpr (kTransposed) {
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      if constexpr (kFold) {
        const std::uint32_t factors = shared.transposed.fold[place.ty / kMxPatches][col + j];
        columns[j][0] = fold_four<kE5m2, true>(columns[j][0], factors);
        columns[j][1] = fold_four<kE5m2, true>(columns[j][1], factors);
      }
      column_slot(shared.tile, place, j) = make_uint2(columns[j][0], columns[j][1]);
    }
    __syncthreads();
    write_transposed<L2Hint::normal>(shared.tile, copies.transposed, place);
  }
}

// The copies of a tile at the edge of the matrix, or of one with elements that are not finite.
template <bool kE5m2, bool kFold, Dtype kDtype>
__device__ __forceinline__ void write_mx_edge(MxStorage& shared, const QuantizeParams& copies,
                                              Patch<kDtype> patch, const PatchPlace& place) {
  make_opaque(patch);
  if (copies.out.kind != ScaleKind::none) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float x[kPatch];
#pragma unroll
      for (int j = 0; j < kPatch; ++j) x[j] = patch.value(i, j);
      const uint2 bytes =
          cast_mx<kE5m2, kFold, false>(x, shared.out, place.tx / kMxPatches, place.ty * kPatch + i);
      const std::uint32_t words[2] = {bytes.x, bytes.y};
      if (place.row0() + i < copies.rows) {
        store_edge(copies.out, place.row0() + i, place.col0(), copies.cols, words);
      }
    }
  }
  if (copies.transposed.kind != ScaleKind::none) {
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      float x[kPatch];
#pragma unroll
      for (int i = 0; i < kPatch; ++i) x[i] = patch.value(i, j);
      column_slot(shared.tile, place, j) = cast_mx<kE5m2, kFold, false>(
          x, shared.transposed, place.ty / kMxPatches, place.tx * kPatch + j);
    }
    __syncthreads();
    write_transposed_edge(shared.tile, copies, place, copies.rows);
  }
}

}  // namespace octet::sm90
