// exp of a vector of f32, within 2 ulp: 0 below -87.7, infinity above 88.03, anything for NaN.
// Included once per instruction set.
#if defined(OCTET_CPU_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_EXP_INL
#undef OCTET_CPU_EXP_INL
#else
#define OCTET_CPU_EXP_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x) = 2^n exp(r), n the nearest integer to x / ln 2. Adding 1.5 * 2^23 leaves n in the low bits.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> exp_f32(hn::Vec<hn::ScalableTag<float>> x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  // The bounds give n = -127 and n = 128, whose powers of two below are 0 and infinity.
  const auto clamped = hn::Max(hn::Set(d, -88.1f), hn::Min(hn::Set(d, 89.0f), x));
  const auto anchor = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(clamped, hn::Set(d, 0x1.715476p+0f), anchor);
  const auto n = hn::Sub(shifted, anchor);
  const auto power = hn::BitCast(
      d, hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::Set(du, 0x3F800000u)));
  // ln 2 in two parts; the product of n and the first is exact.
  const auto near = hn::NegMulAdd(n, hn::Set(d, 0x1.62e400p-1f), clamped);
  const auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), near);
  // exp(r) = 1 + r + r^2 q(r) to 3e-9 of it where |r| <= ln 2 / 2: minimax.
  auto q = hn::MulAdd(r, hn::Set(d, 0x1.6a2434p-10f), hn::Set(d, 0x1.1239e2p-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.5558f2p-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.555492p-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.fffffcp-2f));
  const auto beyond_one = hn::MulAdd(q, hn::Mul(r, r), r);
  return hn::Mul(hn::Add(hn::Set(d, 1.0f), beyond_one), power);
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
