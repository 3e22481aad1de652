// How the lanes of f32, f16 and bf16 are read: as pairs of f32 for a cast, as integers for a
// maximum (magnitudes of one float type order as their bits do). Included once per instruction set.
#if defined(OCTET_CPU_FLOAT_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_FLOAT_LANES_INL
#undef OCTET_CPU_FLOAT_LANES_INL
#else
#define OCTET_CPU_FLOAT_LANES_INL
#endif

#include "cpu/fp8_encode-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// Two vectors of f32 in memory order, signs included, to a Pair.
HWY_INLINE Pair split_even_odd(hn::Vec<F32> first, hn::Vec<F32> second) {
  const U32 du;
  const auto even = hn::BitCast(du, hn::ConcatEven(F32(), second, first));
  const auto odd = hn::BitCast(du, hn::ConcatOdd(F32(), second, first));
  const auto magnitude = hn::Set(du, 0x7FFFFFFFu);
  return {hn::BitCast(F32(), hn::And(even, magnitude)), hn::BitCast(F32(), hn::And(odd, magnitude)),
          high_halves(even, odd)};
}

struct Bf16Lanes {
  using Element = std::uint16_t;
  static constexpr Element kMagnitude = 0x7FFF;
  static constexpr Element kInfinity = 0x7F80;

  static HWY_INLINE Pair load_pair(const Element* from) {
    const auto lanes = hn::LoadU(U16(), from);
    const auto bits = hn::BitCast(U32(), hn::And(lanes, hn::Set(U16(), kMagnitude)));
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(bits)),
            hn::BitCast(F32(), hn::And(bits, hn::Set(U32(), 0xFFFF0000u))), lanes};
  }
  static HWY_INLINE hn::Vec<F32> load_f32(const Element* from) {
    const auto lanes = hn::LoadU(hn::Rebind<Element, F32>(), from);
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), lanes)));
  }
};

struct F16Lanes {
  using Element = std::uint16_t;
  static constexpr Element kMagnitude = 0x7FFF;
  static constexpr Element kInfinity = 0x7C00;

  static HWY_INLINE Pair load_pair(const Element* from) {
    return split_even_odd(load_f32(from), load_f32(from + hn::Lanes(F32())));
  }
  static HWY_INLINE hn::Vec<F32> load_f32(const Element* from) {
    const hn::Rebind<hwy::float16_t, F32> half;
    const auto lanes = hn::LoadU(hn::Rebind<Element, F32>(), from);
    return hn::PromoteTo(F32(), hn::BitCast(half, lanes));
  }
};

struct F32Lanes {
  using Element = std::uint32_t;
  static constexpr Element kMagnitude = 0x7FFFFFFF;
  static constexpr Element kInfinity = 0x7F800000;

  static HWY_INLINE Pair load_pair(const Element* from) {
    return split_even_odd(load_f32(from), load_f32(from + hn::Lanes(F32())));
  }
  static HWY_INLINE hn::Vec<F32> load_f32(const Element* from) {
    return hn::BitCast(F32(), hn::LoadU(U32(), from));
  }
};

// The largest lane.
HWY_INLINE std::uint16_t max_lane(hn::Vec<U16> lanes) {
  const hn::Half<U16> half;
#if HWY_TARGET == HWY_AVX3
  const hn::Half<decltype(half)> quarter;
  const auto halves = hn::Max(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes));
  const auto eight = hn::Max(hn::LowerHalf(quarter, halves), hn::UpperHalf(quarter, halves));
#else
  const auto eight = hn::Max(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes));
#endif
  // x86 has a horizontal minimum of eight 16-bit lanes, and no maximum.
  const __m128i smallest = _mm_minpos_epu16(hn::Not(eight).raw);
  return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(smallest));
}
HWY_INLINE std::uint32_t max_lane(hn::Vec<U32> lanes) {
  return hn::GetLane(hn::MaxOfLanes(U32(), lanes));
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
