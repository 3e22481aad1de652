// The largest finite magnitude of every row and column of a tile, and the scales they give.
// Included once per instruction set.
#if defined(OCTET_OPS_QUANTIZE_TILE_AMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_QUANTIZE_TILE_AMAX_INL
#undef OCTET_OPS_QUANTIZE_TILE_AMAX_INL
#else
#define OCTET_OPS_QUANTIZE_TILE_AMAX_INL
#endif

#include "cpu/float_lanes-inl.hpp"
#include "ops/quantize/cpu_simd.hpp"

#include <algorithm>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

inline constexpr int kTile = 128;

// The input of a tile. All of its 128 columns may be read; those past the matrix are zero.
template <class Lanes>
struct TileSource {
  const typename Lanes::Element* data;
  std::int64_t pitch;
  int rows;

  const typename Lanes::Element* row(int r) const { return data + r * pitch; }
};

template <class Lanes>
struct TileAmax {
  alignas(64) typename Lanes::Element row[kTile];
  alignas(64) typename Lanes::Element column[kTile];
  typename Lanes::Element tile;
};

// Magnitudes as integers. kFiniteOnly leaves out infinities and NaN; without it they are the
// maximum, which shows that a tile has some.
template <class Lanes, bool kFiniteOnly>
HWY_INLINE void find_amax(const TileSource<Lanes>& source, TileAmax<Lanes>& amax) {
  using Element = typename Lanes::Element;
  const hn::ScalableTag<Element> d;
  constexpr int kStep = static_cast<int>(HWY_LANES(Element));
  const auto magnitude_mask = hn::Set(d, Lanes::kMagnitude);
  const auto infinity = hn::Set(d, Lanes::kInfinity);
  // As many columns at a time as fit their maxima in registers.
  constexpr int kVectors = 4 * 64 / HWY_MAX_BYTES;
  std::fill_n(amax.row, kTile, Element{0});
  for (int c = 0; c < kTile; c += kVectors * kStep) {
    hn::Vec<decltype(d)> column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = hn::Zero(d);
    for (int r = 0; r < source.rows; ++r) {
      auto row = hn::Zero(d);
      for (int v = 0; v < kVectors; ++v) {
        auto lanes = hn::And(hn::LoadU(d, source.row(r) + c + v * kStep), magnitude_mask);
        if (kFiniteOnly) lanes = hn::IfThenElseZero(hn::Lt(lanes, infinity), lanes);
        column[v] = hn::Max(column[v], lanes);
        row = hn::Max(row, lanes);
      }
      amax.row[r] = std::max(amax.row[r], max_lane(row));
    }
    for (int v = 0; v < kVectors; ++v) hn::Store(column[v], d, amax.column + c + v * kStep);
  }
  auto largest = hn::Zero(d);
  for (int c = 0; c < kTile; c += kStep) largest = hn::Max(largest, hn::Load(d, amax.column + c));
  amax.tile = max_lane(largest);
}

struct TileScales {
  alignas(64) float forward[kTile];  // x * forward is cast
  alignas(64) float inverse[kTile];  // the scale that is stored
  alignas(64) float split[kTile];    // forward, in the order in which columns are cast
};

// block_scale() of every amax: the same IEEE operations, a vector at a time.
template <class Lanes, class Format>
HWY_INLINE void find_scales(const typename Lanes::Element* amax, const Tile& tile,
                            TileScales& scales) {
  const F32 d;
  const auto one = hn::Set(d, 1.0f);
  const auto limit = hn::Set(d, Format::kNumbers.limit);
  const auto smallest = hn::Set(d, Format::kNumbers.limit * f32_from_bits(1u << 23));
  for (int i = 0; i < kTile; i += static_cast<int>(hn::Lanes(d))) {
    const auto wanted = hn::Max(Lanes::load_f32(amax + i), hn::Set(d, tile.amax_floor));
    const auto empty = hn::Eq(wanted, hn::Zero(d));
    const auto a = hn::Max(wanted, smallest);
    auto inverse = hn::Div(a, limit);
    auto forward = hn::Div(limit, a);
    if (tile.pow2_scales) {
      const auto above = hn::Add(hn::BitCast(U32(), inverse), hn::Set(U32(), 0x007FFFFFu));
      inverse = hn::BitCast(d, hn::And(above, hn::Set(U32(), 0xFF800000u)));
      forward = hn::Div(one, inverse);
    }
    hn::Store(hn::IfThenElse(empty, one, forward), d, scales.forward + i);
    hn::Store(hn::IfThenElse(empty, one, inverse), d, scales.inverse + i);
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
