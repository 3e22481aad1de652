// FP8 codes to f32, by way of f16, whose conversion the hardware has: an e5m2 is the upper byte of
// an f16, an e4m3 has its exponent and mantissa at the same place, 2^8 too small. Included once per
// instruction set.
#if defined(OCTET_CPU_FP8_DECODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_FP8_DECODE_INL
#undef OCTET_CPU_FP8_DECODE_INL
#else
#define OCTET_CPU_FP8_DECODE_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many codes as a vector has f32 lanes.
template <class Codes>
HWY_INLINE hn::Vec<hn::ScalableTag<float>> DecodeE5m2(Codes codes) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto half = hn::ShiftLeft<8>(hn::PromoteTo(d16, codes));
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(d)>(), half));
}

template <class Codes>
HWY_INLINE hn::Vec<hn::ScalableTag<float>> DecodeE4m3(Codes codes) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto wide = hn::PromoteTo(d16, codes);
  const auto sign = hn::ShiftLeft<8>(hn::And(wide, hn::Set(d16, std::uint16_t{0x80})));
  const auto magnitude = hn::And(wide, hn::Set(d16, std::uint16_t{0x7F}));
  const auto is_nan = hn::Eq(magnitude, hn::Set(d16, std::uint16_t{0x7F}));
  const auto finite = hn::ShiftLeft<7>(magnitude);
  const auto half =
      hn::Or(sign, hn::IfThenElse(is_nan, hn::Set(d16, std::uint16_t{0x7E00}), finite));
  const hn::Rebind<hwy::float16_t, decltype(d)> df16;
  return hn::Mul(hn::PromoteTo(d, hn::BitCast(df16, half)), hn::Set(d, 256.0f));
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
