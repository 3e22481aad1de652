// f32 magnitudes to FP8 codes, and the packing around it. Included once per instruction set.
//
// A Pair holds two vectors of f32, the even and the odd elements of a run, and the signs of the run
// as 16-bit lanes in memory order. Codes are made on f32 lanes, merged into 16-bit lanes in memory
// order, and packed into bytes: no permutation until the very end.
#if defined(OCTET_CPU_FP8_ENCODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_FP8_ENCODE_INL
#undef OCTET_CPU_FP8_ENCODE_INL
#else
#define OCTET_CPU_FP8_ENCODE_INL
#endif

#include "core/numeric.hpp"

#include <hwy/highway.h>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U8 = hn::ScalableTag<std::uint8_t>;
using U16 = hn::ScalableTag<std::uint16_t>;
using U32 = hn::ScalableTag<std::uint32_t>;
using F32 = hn::ScalableTag<float>;

struct Pair {
  hn::Vec<F32> even;  // magnitudes
  hn::Vec<F32> odd;
  hn::Vec<U16> signs;  // of the whole run, in the top bit of each lane; the rest is noise
};

// The upper and the lower 16 bits of 32-bit lanes, in memory order.
HWY_INLINE hn::Vec<U16> high_halves(hn::Vec<U32> even, hn::Vec<U32> odd) {
  return hn::OddEven(hn::BitCast(U16(), odd), hn::BitCast(U16(), hn::ShiftRight<16>(even)));
}
HWY_INLINE hn::Vec<U16> low_halves(hn::Vec<U32> even, hn::Vec<U32> odd) {
  return hn::OddEven(hn::BitCast(U16(), hn::ShiftLeft<16>(odd)), hn::BitCast(U16(), even));
}

// Adds the power of two whose ulp is the step of the format at this magnitude, so that the hardware
// rounds to nearest even. What is left is the exponent in the upper and the mantissa, with its
// leading bit, in the lower half. The product inside the FMA is exact: both are powers of two.
template <class Format>
HWY_INLINE hn::Vec<U32> round_to_step(hn::Vec<F32> magnitude) {
  const U32 du;
  const F32 df;
  const auto exponent = hn::And(hn::BitCast(du, magnitude), hn::Set(du, 0x7F800000u));
  const auto clamped = hn::Max(exponent, hn::Set(du, Format::kSmallestNormalExponent << 23));
  const auto step_to_anchor = hn::Set(df, static_cast<float>(1u << Format::kDroppedBits));
  return hn::BitCast(du, hn::MulAdd(hn::BitCast(df, clamped), step_to_anchor, magnitude));
}

// fp8_from_f32 for magnitudes that are finite and round to no more than the format's limit.
template <class Format>
HWY_INLINE hn::Vec<U16> codes_of(hn::Vec<F32> even, hn::Vec<F32> odd) {
  const U16 d;
  const auto rounded_even = round_to_step<Format>(even);
  const auto rounded_odd = round_to_step<Format>(odd);
  // An f32 exponent starts at bit 7 of the upper half, an FP8 one above its mantissa bits.
  const auto exponent =
      hn::ShiftRight<7 - Format::kMantissaBits>(high_halves(rounded_even, rounded_odd));
  constexpr std::uint32_t kBias = (Format::kSmallestNormalExponent + Format::kDroppedBits)
                                  << Format::kMantissaBits;
  const auto rebiased = hn::Sub(exponent, hn::Set(d, static_cast<std::uint16_t>(kBias)));
  return hn::Add(low_halves(rounded_even, rounded_odd), rebiased);
}

// Two vectors of 16-bit lanes below 256 to one of bytes, alternating 8 lanes of each.
HWY_INLINE hn::Vec<U8> pack_interleaved(hn::Vec<U16> a, hn::Vec<U16> b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<U8>{_mm512_packus_epi16(a.raw, b.raw)};
#else
  return hn::Vec<U8>{_mm256_packus_epi16(a.raw, b.raw)};
#endif
}
// The same for any lanes, of which only the signs are kept.
HWY_INLINE hn::Vec<U8> pack_signs_interleaved(hn::Vec<U16> a, hn::Vec<U16> b) {
#if HWY_TARGET == HWY_AVX3
  const hn::Vec<U8> packed{_mm512_packs_epi16(a.raw, b.raw)};
#else
  const hn::Vec<U8> packed{_mm256_packs_epi16(a.raw, b.raw)};
#endif
  return hn::And(packed, hn::Set(U8(), std::uint8_t{0x80}));
}
// All lanes of a, then all lanes of b.
HWY_INLINE hn::Vec<U8> uninterleave(hn::Vec<U8> packed) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return hn::Vec<U8>{_mm512_permutexvar_epi64(order, packed.raw)};
#else
  return hn::Vec<U8>{_mm256_permute4x64_epi64(packed.raw, 0xD8)};
#endif
}

struct E4m3 {
  static constexpr const Fp8Format& kNumbers = kE4m3;
  static constexpr int kMantissaBits = kE4m3.mantissa_bits;
  static constexpr std::uint32_t kDroppedBits = 23 - kE4m3.mantissa_bits;
  static constexpr std::uint32_t kSmallestNormalExponent = 128 - kE4m3.exponent_bias;  // f32 bias
};

struct E5m2 {
  static constexpr const Fp8Format& kNumbers = kE5m2;
  static constexpr int kMantissaBits = kE5m2.mantissa_bits;
  static constexpr std::uint32_t kDroppedBits = 23 - kE5m2.mantissa_bits;
  static constexpr std::uint32_t kSmallestNormalExponent = 128 - kE5m2.exponent_bias;
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
