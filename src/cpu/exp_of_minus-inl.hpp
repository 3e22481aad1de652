// exp(-x) of a vector of f32, relative error at most 5e-7, for |x| < 20 at most 2.2e-7; infinity
// below x = -88.38, 0 above 87.69, unspecified for NaN.
// Included once per instruction set.
#if defined(OCTET_CPU_EXP_OF_MINUS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_EXP_OF_MINUS_INL
#undef OCTET_CPU_EXP_OF_MINUS_INL
#else
#define OCTET_CPU_EXP_OF_MINUS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(-x) = 2^n exp(r), n the nearest integer to -x / ln 2. Adding 1.5 * 2^23 + 127 leaves n + 127,
// the exponent of 2^n, in the low bits.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> exp_of_minus(hn::Vec<hn::ScalableTag<float>> x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  // The bounds give n = 128 and n = -127, whose powers of two are infinity and 0.
  const auto clamped = hn::Max(hn::Set(d, -89.0f), hn::Min(hn::Set(d, 88.1f), x));
  const auto anchor = hn::Set(d, 12583039.0f);
  const auto shifted = hn::NegMulAdd(clamped, hn::Set(d, 0x1.715476p+0f), anchor);
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  const auto n = hn::Sub(shifted, anchor);
  const auto r = hn::NegMulSub(n, hn::Set(d, 0x1.62e430p-1f), clamped);  // ln 2 is off by 2e-9
  // Minimax polynomial of exp(r), relative error 1.1e-7 for |r| <= ln 2 / 2.
  auto p = hn::MulAdd(r, hn::Set(d, 0x1.106278p-7f), hn::Set(d, 0x1.572a06p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5557aep-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffdfcp-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::Mul(p, power);
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
