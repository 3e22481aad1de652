// Tiles in mx blocks that are folded into blocks of 128: the largest magnitudes of 32 elements, their
// exponents, and codes at the largest of them.
// Included once per instruction set.
#if defined(OCTET_OPS_QUANTIZE_TILE_FOLD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_QUANTIZE_TILE_FOLD_INL
#undef OCTET_OPS_QUANTIZE_TILE_FOLD_INL
#else
#define OCTET_OPS_QUANTIZE_TILE_FOLD_INL
#endif

#include "ops/quantize/fold_table.hpp"
#include "ops/quantize/tile_cast-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

inline constexpr int kMxBlocks = kTile / static_cast<int>(kMxBlock);  // along a line of a tile

template <class Lanes>
struct MxAmax {
  // By block of columns and row, and by block of rows and column.
  alignas(64) typename Lanes::Element row[kMxBlocks][kTile];
  alignas(64) typename Lanes::Element column[kMxBlocks][kTile];
};

template <class Lanes, bool kFiniteOnly>
HWY_INLINE void find_mx_amax(const TileSource<Lanes>& source, MxAmax<Lanes>& amax) {
  using Element = typename Lanes::Element;
  const hn::ScalableTag<Element> d;
  constexpr int kBlockLength = static_cast<int>(kMxBlock);
  constexpr int kStep = static_cast<int>(HWY_LANES(Element));
  constexpr int kVectors = kBlockLength / kStep;
  const auto magnitude_mask = hn::Set(d, Lanes::kMagnitude);
  const auto infinity = hn::Set(d, Lanes::kInfinity);
  amax = {};
  for (int first = 0; first < source.rows; first += kBlockLength) {
    const int end = std::min(first + kBlockLength, source.rows);
    for (int b = 0; b < kMxBlocks; ++b) {
      hn::Vec<decltype(d)> column[kVectors];
      for (int v = 0; v < kVectors; ++v) column[v] = hn::Zero(d);
      for (int r = first; r < end; ++r) {
        auto row = hn::Zero(d);
        for (int v = 0; v < kVectors; ++v) {
          const Element* from = source.row(r) + b * kBlockLength + v * kStep;
          auto lanes = hn::And(hn::LoadU(d, from), magnitude_mask);
          if (kFiniteOnly) lanes = hn::IfThenElseZero(hn::Lt(lanes, infinity), lanes);
          column[v] = hn::Max(column[v], lanes);
          row = hn::Max(row, lanes);
        }
        amax.row[b][r] = max_lane(row);
      }
      for (int v = 0; v < kVectors; ++v) {
        hn::Store(column[v], d, amax.column[first / kBlockLength] + b * kBlockLength + v * kStep);
      }
    }
  }
}

// What the lines of a copy are cast with, by block of 32 along the line.
struct FoldLines {
  alignas(64) float forward[kMxBlocks][kTile];
  alignas(64) float split[kMxBlocks][kTile];  // of columns, in the order of split_runs()
  std::uint8_t shift[kMxBlocks][kTile];       // how far below the largest exponent
  int most[kTile];                            // the largest exponent of a line
};

// `square`: the 32 lines of a block share an exponent, and all lines of the tile the largest.
template <class Lanes, class Format>
HWY_INLINE void find_fold_lines(const typename Lanes::Element (&amax)[kMxBlocks][kTile],
                                bool square, const MxRule& rule, FoldLines& lines) {
  const F32 d;
  alignas(64) float magnitudes[kTile];
  int exponents[kMxBlocks][kTile];
  std::fill_n(lines.most, kTile, -kMxBias);
  for (int b = 0; b < kMxBlocks; ++b) {
    for (int i = 0; i < kTile; i += static_cast<int>(hn::Lanes(d))) {
      hn::Store(Lanes::load_f32(amax[b] + i), d, magnitudes + i);
    }
    if (square) {
      constexpr int kLines = static_cast<int>(kMxBlock);
      for (float* group = magnitudes; group != magnitudes + kTile; group += kLines) {
        std::fill_n(group, kLines, *std::max_element(group, group + kLines));
      }
    }
    for (int i = 0; i < kTile; ++i) {
      exponents[b][i] = mx_exponent(magnitudes[i], rule);
      lines.forward[b][i] = power_of_two(-exponents[b][i]);
      lines.most[i] = std::max(lines.most[i], exponents[b][i]);
    }
    split_runs(lines.forward[b], lines.split[b]);
  }
  if (square) std::fill_n(lines.most, kTile, *std::max_element(lines.most, lines.most + kTile));
  for (int b = 0; b < kMxBlocks; ++b) {
    for (int i = 0; i < kTile; ++i) {
      lines.shift[b][i] =
          static_cast<std::uint8_t>(std::min(lines.most[i] - exponents[b][i], kFoldShifts - 1));
    }
  }
}

struct FactorPerRowBlock {
  const float (*forward)[kTile];

  HWY_INLINE Factors at(int row, int column) const {
    const auto factor = hn::Set(F32(), forward[column / static_cast<int>(kMxBlock)][row]);
    return {factor, factor};
  }
};

struct FactorPerColumnBlock {
  const float (*split)[kTile];

  HWY_INLINE Factors at(int row, int column) const {
    const float* factors = split[row / static_cast<int>(kMxBlock)] + column;
    return {hn::Load(F32(), factors), hn::Load(F32(), factors + hn::Lanes(F32()))};
  }
};

// Casts rows [begin, end) of the tile and folds their codes. Values above the limit saturate.
template <class Lanes, class Format>
HWY_INLINE void cast_folded(const TileSource<Lanes>& source, bool by_column, const FoldLines& lines,
                            int begin, int end, const FoldTable& table, Strip& strip) {
  constexpr int kBlockLength = static_cast<int>(kMxBlock);
  if (by_column) {
    cast_rows<Lanes, Format, true>(source, FactorPerColumnBlock{lines.split}, begin, end, strip);
    for (int r = begin; r < end; ++r) {
      const std::uint8_t* shift = lines.shift[r / kBlockLength];
      std::uint8_t* codes = strip.codes[r - begin];
      for (int c = 0; c < kTile; ++c) codes[c] = table.codes[shift[c]][codes[c]];
    }
    return;
  }
  cast_rows<Lanes, Format, true>(source, FactorPerRowBlock{lines.forward}, begin, end, strip);
  for (int r = begin; r < end; ++r) {
    for (int b = 0; b < kMxBlocks; ++b) {
      if (lines.shift[b][r] == 0) continue;
      const auto& folded = table.codes[lines.shift[b][r]];
      std::uint8_t* codes = strip.codes[r - begin] + b * kBlockLength;
      for (int c = 0; c < kBlockLength; ++c) codes[c] = folded[codes[c]];
    }
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
