// The kernels of quantize over one tile, start to end: its maxima, its scales, then strip by strip
// the cast into each copy. The input is read from memory once and then from the caches.
// Compute-bound while it fits the caches (about 11 instructions per vector of f32 and copy), else
// bound by reading 128 rows at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantize/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>

#include "cpu/byte_transpose-inl.hpp"
#include "ops/quantize/tile_fold-inl.hpp"

#include <cstring>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// Buffers the transposed tile, so that whole cache lines are written.
struct TransposedTile {
  alignas(64) std::uint8_t codes[kTile][kTile];
};

// Elements from the first row of a tile to row `r`.
HWY_INLINE std::int64_t row_offset(const Tile& tile, int r) {
  return (tile.gathered != nullptr ? tile.gathered[r] / tile.slots : r) * tile.pitch;
}

// A copy of a tile that has fewer than 128 columns, zero-filled, or gathered rows.
template <class Lanes>
struct CopiedTile {
  alignas(64) typename Lanes::Element elements[kTile][kTile];
};

template <class Lanes>
HWY_INLINE TileSource<Lanes> source_of(const Tile& tile, CopiedTile<Lanes>& copied) {
  using Element = typename Lanes::Element;
  const auto* input = static_cast<const Element*>(tile.input);
  if (tile.cols == kTile && tile.gathered == nullptr) return {input, tile.pitch, tile.rows};
  for (int r = 0; r < tile.rows; ++r) {
    Element* row = copied.elements[r];
    std::memcpy(row, input + row_offset(tile, r),
                sizeof(Element) * static_cast<std::size_t>(tile.cols));
    std::memset(row + tile.cols, 0, sizeof(Element) * static_cast<std::size_t>(kTile - tile.cols));
  }
  return {copied.elements[0], kTile, tile.rows};
}

// Prefetches rows [begin, end) of the next tile while this one is cast. Dual, bf16
// 4096x4096, two threads with AVX-512: 13.8 GB/s against 11.7 GB/s without.
template <class Lanes>
HWY_INLINE void prefetch_rows(const Tile& tile, int begin, int end) {
  if (tile.next == nullptr) return;
  using Element = typename Lanes::Element;
  for (int r = begin; r < end; ++r) {
    const auto* row = static_cast<const Element*>(tile.next) + row_offset(tile, r);
    for (int c = 0; c < kTile; c += static_cast<int>(64 / sizeof(Element))) {
      __builtin_prefetch(row + c, 0, 2);
    }
  }
}

// The scales of one copy. A scale per tile is a scale per row, all the same.
template <class Lanes, class Format>
HWY_INLINE void scales_of(const TileAmax<Lanes>& amax, const Tile& tile, const TileCopy& copy,
                          TileScales& scales) {
  if (copy.forward != nullptr) {
    const bool rows = copy.shared == SharedScale::row;
    const int count = rows ? tile.rows : tile.cols;
    std::copy_n(copy.forward, count, scales.forward);
    std::fill(scales.forward + count, scales.forward + kTile, 0.0f);
    if (!rows) split_runs(scales.forward, scales.split);
    return;
  }
  if (copy.shared != SharedScale::tile) {
    const bool rows = copy.shared == SharedScale::row;
    find_scales<Lanes, Format>(rows ? amax.row : amax.column, tile, scales);
    const int count = rows ? tile.rows : tile.cols;
    for (int i = 0; i < count; ++i) copy.scales[i * copy.scale_step] = scales.inverse[i];
    if (!rows) split_runs(scales.forward, scales.split);
    return;
  }
  alignas(64) typename Lanes::Element same[kTile];
  std::fill_n(same, kTile, amax.tile);
  find_scales<Lanes, Format>(same, tile, scales);
  *copy.scales = scales.inverse[0];
}

template <class Lanes, class Format>
HWY_INLINE void cast_strip(const TileSource<Lanes>& source, bool non_finite, SharedScale shared,
                           const TileScales& scales, int begin, int end, Strip& strip) {
  if (shared == SharedScale::column) {
    const FactorPerColumn factor{scales.split};
    if (non_finite) {
      cast_rows<Lanes, Format, true>(source, factor, begin, end, strip);
    } else {
      cast_rows<Lanes, Format, false>(source, factor, begin, end, strip);
    }
  } else {
    const FactorPerRow factor{scales.forward};
    if (non_finite) {
      cast_rows<Lanes, Format, true>(source, factor, begin, end, strip);
    } else {
      cast_rows<Lanes, Format, false>(source, factor, begin, end, strip);
    }
  }
}

// Copies rows x cols bytes, kTile apart in `from`, to their place in the copy.
HWY_INLINE void store_rows(const std::uint8_t* from, int rows, int cols, std::uint8_t* to,
                           std::int64_t pitch, bool stream) {
  const U8 d;
  constexpr int kStep = static_cast<int>(HWY_LANES(std::uint8_t));
  for (int r = 0; r < rows; ++r, from += kTile, to += pitch) {
    if (cols != kTile) {
      std::memcpy(to, from, static_cast<std::size_t>(cols));
    } else if (stream) {
      for (int c = 0; c < kTile; c += kStep) hn::Stream(hn::Load(d, from + c), d, to + c);
    } else {
      for (int c = 0; c < kTile; c += kStep) hn::StoreU(hn::Load(d, from + c), d, to + c);
    }
  }
}

HWY_INLINE void transpose_strip(const Strip& strip, int begin, TransposedTile& transposed) {
  constexpr int kStep = static_cast<int>(HWY_LANES(std::uint8_t));
  for (int c = 0; c < kTile; c += kStep) {
    transpose_rows16(&strip.codes[0][c], kTile, &transposed.codes[c][begin], kTile);
  }
}

// Zeros behind the first `used` columns.
HWY_INLINE void clear_columns(TransposedTile& transposed, int rows, int used) {
  if (used == kTile) return;
  for (int r = 0; r < rows; ++r) {
    std::memset(transposed.codes[r] + used, 0, static_cast<std::size_t>(kTile - used));
  }
}

// The transposed copy of a tile, from its buffer.
HWY_INLINE void store_transposed(const Tile& tile, TransposedTile& transposed) {
  int columns = tile.rows;
  if (tile.transposed.fills_columns) {
    clear_columns(transposed, tile.cols, tile.rows);
    columns = kTile;
  }
  store_rows(transposed.codes[0], tile.cols, columns, tile.transposed.values, tile.transposed.pitch,
             tile.transposed.stream);
}

template <class Lanes, class Format>
HWY_INLINE void fold_scales_of(const MxAmax<Lanes>& amax, const Tile& tile, const TileCopy& copy,
                               FoldLines& lines) {
  const bool columns = copy.shared == SharedScale::column;
  const bool square = copy.shared == SharedScale::tile;
  find_fold_lines<Lanes, Format>(columns ? amax.column : amax.row, square, *tile.mx_rule, lines);
  const int count = square ? 1 : columns ? tile.cols : tile.rows;
  for (int i = 0; i < count; ++i) copy.scales[i * copy.scale_step] = power_of_two(lines.most[i]);
}

template <class Lanes, class Format>
HWY_NOINLINE void fold_one_tile(const Tile& tile) {
  CopiedTile<Lanes> copied;
  const TileSource<Lanes> source = source_of<Lanes>(tile, copied);
  MxAmax<Lanes> amax;
  find_mx_amax<Lanes, true>(source, amax);
  FoldLines lines;
  FoldLines transposed_lines;
  if (tile.out.wanted) fold_scales_of<Lanes, Format>(amax, tile, tile.out, lines);
  if (tile.transposed.wanted) {
    fold_scales_of<Lanes, Format>(amax, tile, tile.transposed, transposed_lines);
  }
  const FoldTable& table =
      fold_table(Format::kNumbers.mantissa_bits == 2 ? Dtype::e5m2 : Dtype::e4m3);
  Strip strip;
  if (tile.rows % kStrip != 0) strip = {};
  TransposedTile transposed;
  for (int begin = 0; begin < tile.rows; begin += kStrip) {
    const int end = std::min(begin + kStrip, tile.rows);
    prefetch_rows<Lanes>(tile, begin, end);
    if (tile.out.wanted) {
      cast_folded<Lanes, Format>(source, tile.out.shared == SharedScale::column, lines, begin, end,
                                 table, strip);
      store_rows(strip.codes[0], end - begin, tile.cols, tile.out.values + begin * tile.out.pitch,
                 tile.out.pitch, tile.out.stream);
    }
    if (tile.transposed.wanted) {
      cast_folded<Lanes, Format>(source, tile.transposed.shared == SharedScale::column,
                                 transposed_lines, begin, end, table, strip);
      transpose_strip(strip, begin, transposed);
    }
  }
  if (tile.transposed.wanted) store_transposed(tile, transposed);
}

template <class Lanes, class Format>
void quantize_one_tile(const Tile& tile) {
  if (tile.mx_rule != nullptr) return fold_one_tile<Lanes, Format>(tile);
  CopiedTile<Lanes> copied;
  const TileSource<Lanes> source = source_of<Lanes>(tile, copied);
  TileAmax<Lanes> amax;
  find_amax<Lanes, false>(source, amax);
  const bool has_non_finite = amax.tile >= Lanes::kInfinity;
  if (has_non_finite) find_amax<Lanes, true>(source, amax);
  const bool non_finite = has_non_finite || tile.saturates;

  TileScales scales;
  TileScales transposed_scales;
  if (tile.out.wanted) scales_of<Lanes, Format>(amax, tile, tile.out, scales);
  if (tile.transposed.wanted) {
    scales_of<Lanes, Format>(amax, tile, tile.transposed, transposed_scales);
  }
  const bool same_codes = tile.out.wanted && tile.transposed.wanted &&
                          tile.out.shared == tile.transposed.shared &&
                          tile.out.forward == tile.transposed.forward;

  Strip strip;
  if (tile.rows % kStrip != 0) strip = {};
  TransposedTile transposed;
  for (int begin = 0; begin < tile.rows; begin += kStrip) {
    const int end = std::min(begin + kStrip, tile.rows);
    prefetch_rows<Lanes>(tile, begin, end);
    if (tile.out.wanted) {
      cast_strip<Lanes, Format>(source, non_finite, tile.out.shared, scales, begin, end, strip);
      store_rows(strip.codes[0], end - begin, tile.cols, tile.out.values + begin * tile.out.pitch,
                 tile.out.pitch, tile.out.stream);
    }
    if (tile.transposed.wanted) {
      if (!same_codes) {
        cast_strip<Lanes, Format>(source, non_finite, tile.transposed.shared, transposed_scales,
                                  begin, end, strip);
      }
      transpose_strip(strip, begin, transposed);
    }
  }
  if (tile.transposed.wanted) store_transposed(tile, transposed);
}

template <class Lanes>
void find_tile_amax(const Tile& tile, float* rows, float* columns) {
  CopiedTile<Lanes> copied;
  const TileSource<Lanes> source = source_of<Lanes>(tile, copied);
  TileAmax<Lanes> amax;
  find_amax<Lanes, false>(source, amax);
  if (amax.tile >= Lanes::kInfinity) find_amax<Lanes, true>(source, amax);
  const F32 d;
  for (int i = 0; i < kTile; i += static_cast<int>(hn::Lanes(d))) {
    hn::StoreU(Lanes::load_f32(amax.row + i), d, rows + i);
    hn::StoreU(Lanes::load_f32(amax.column + i), d, columns + i);
  }
}

// By dtype of the input, f32, f16, bf16.
extern const FindTileAmax kFindTileAmax[3];
const FindTileAmax kFindTileAmax[3] = {find_tile_amax<F32Lanes>, find_tile_amax<F16Lanes>,
                                       find_tile_amax<Bf16Lanes>};

// By dtype of the input, f32, f16, bf16, and by format, e4m3, e5m2.
extern const QuantizeTile kQuantizeTile[3][2];
const QuantizeTile kQuantizeTile[3][2] = {
    {quantize_one_tile<F32Lanes, E4m3>, quantize_one_tile<F32Lanes, E5m2>},
    {quantize_one_tile<F16Lanes, E4m3>, quantize_one_tile<F16Lanes, E5m2>},
    {quantize_one_tile<Bf16Lanes, E4m3>, quantize_one_tile<Bf16Lanes, E5m2>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

FindTileAmax amax_kernel(InstructionSet instructions, Dtype input) {
  const auto& kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kFindTileAmax : N_AVX2::kFindTileAmax;
  return kernels[kernel_index(input)];
}

QuantizeTile quantize_kernel(InstructionSet instructions, Dtype input, Dtype format) {
  const auto& kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kQuantizeTile : N_AVX2::kQuantizeTile;
  return kernels[kernel_index(input)][format == Dtype::e5m2 ? 1 : 0];
}

}  // namespace octet
#endif
