// Casts strips of 16 rows of a tile to FP8, with a scale per row or per column.
// Included once per instruction set.
#if defined(OCTET_OPS_QUANTIZE_TILE_CAST_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_QUANTIZE_TILE_CAST_INL
#undef OCTET_OPS_QUANTIZE_TILE_CAST_INL
#else
#define OCTET_OPS_QUANTIZE_TILE_CAST_INL
#endif

#include "ops/quantize/tile_amax-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

inline constexpr int kStrip = 16;

struct Strip {
  alignas(64) std::uint8_t codes[kStrip][kTile];
};

// What x is multiplied by, for the even and the odd columns of a run.
struct Factors {
  hn::Vec<F32> even;
  hn::Vec<F32> odd;
};

struct FactorPerRow {
  const float* forward;

  HWY_INLINE Factors at(int row, int /*column*/) const {
    const auto factor = hn::Set(F32(), forward[row]);
    return {factor, factor};
  }
};

struct FactorPerColumn {
  const float* split;  // in the order of split_runs()

  HWY_INLINE Factors at(int /*row*/, int column) const {
    return {hn::Load(F32(), split + column), hn::Load(F32(), split + column + hn::Lanes(F32()))};
  }
};

// Sorts every run of two vectors into its even and its odd elements, once per tile.
HWY_INLINE void split_runs(const float* factors, float* split) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t c = 0; c < kTile; c += 2 * lanes) {
    const auto first = hn::Load(d, factors + c);
    const auto second = hn::Load(d, factors + c + lanes);
    hn::Store(hn::ConcatEven(d, second, first), d, split + c);
    hn::Store(hn::ConcatOdd(d, second, first), d, split + c + lanes);
  }
}

// Gives infinities and NaN their codes, whatever the product made of them.
template <class Format>
HWY_INLINE void mark_non_finite(const Pair& x, hn::Vec<U16>& codes, hn::Vec<U16>& signs) {
  const U32 du;
  const U16 d;
  const auto infinity = hn::Set(du, 0x7F800000u);
  const auto even = hn::BitCast(du, x.even);
  const auto odd = hn::BitCast(du, x.odd);
  const auto is_nan = high_halves(hn::VecFromMask(du, hn::Gt(even, infinity)),
                                  hn::VecFromMask(du, hn::Gt(odd, infinity)));
  const auto is_infinite = high_halves(hn::VecFromMask(du, hn::Eq(even, infinity)),
                                       hn::VecFromMask(du, hn::Eq(odd, infinity)));
  constexpr Fp8Format kNumbers = Format::kNumbers;
  codes = hn::IfVecThenElse(is_infinite, hn::Set(d, std::uint16_t{kNumbers.infinity_code}), codes);
  codes = hn::IfVecThenElse(is_nan, hn::Set(d, std::uint16_t{kNumbers.nan_code}), codes);
  constexpr bool kHasInfinity = kNumbers.infinity_code != kNumbers.nan_code;
  signs = hn::AndNot(kHasInfinity ? is_nan : hn::Or(is_nan, is_infinite), signs);
}

template <class Lanes, class Format, bool kNonFinite, class Factor>
HWY_INLINE hn::Vec<U16> cast_run(const typename Lanes::Element* from, const Factor& factor, int row,
                                 int column, hn::Vec<U16>& signs) {
  const Pair x = Lanes::load_pair(from);
  const Factors by = factor.at(row, column);
  // A finite x is at most its block's amax, so the product rounds to at most the limit: nothing
  // saturates, except where factors are given.
  auto even = hn::Mul(x.even, by.even);
  auto odd = hn::Mul(x.odd, by.odd);
  if (kNonFinite) {
    const auto limit = hn::Set(F32(), Format::kNumbers.limit);
    even = hn::Min(even, limit);
    odd = hn::Min(odd, limit);
  }
  auto codes = codes_of<Format>(even, odd);
  signs = x.signs;
  if (kNonFinite) mark_non_finite<Format>(x, codes, signs);
  return codes;
}

// Rows [begin, end) of the tile to the rows of the strip.
template <class Lanes, class Format, bool kNonFinite, class Factor>
HWY_NOINLINE void cast_rows(const TileSource<Lanes>& source, const Factor& factor, int begin,
                            int end, Strip& strip) {
  constexpr int kRun = static_cast<int>(HWY_LANES(std::uint16_t));
  for (int r = begin; r < end; ++r) {
    const typename Lanes::Element* row = source.row(r);
    std::uint8_t* codes = strip.codes[r - begin];
    for (int c = 0; c < kTile; c += 2 * kRun) {
      hn::Vec<U16> signs_a;
      hn::Vec<U16> signs_b;
      const auto a = cast_run<Lanes, Format, kNonFinite>(row + c, factor, r, c, signs_a);
      const auto b =
          cast_run<Lanes, Format, kNonFinite>(row + c + kRun, factor, r, c + kRun, signs_b);
      const auto bytes = hn::Or(pack_interleaved(a, b), pack_signs_interleaved(signs_a, signs_b));
      hn::Store(uninterleave(bytes), U8(), codes + c);
    }
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
