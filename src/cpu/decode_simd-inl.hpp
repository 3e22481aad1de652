// Vectors of f32 from any element type, exactly. Per-target code: see cpu/instruction_set.hpp.
#if defined(OCTET_CPU_DECODE_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_DECODE_SIMD_INL_HPP
#undef OCTET_CPU_DECODE_SIMD_INL_HPP
#else
#define OCTET_CPU_DECODE_SIMD_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;

// Each decoder: the storage type of one element, and two vectors of them as f32, in order.
struct DecodeF32 {
  using Storage = float;
  static HWY_INLINE void load(const float* from, hn::Vec<F32>& low, hn::Vec<F32>& high) {
    low = hn::LoadU(F32(), from);
    high = hn::LoadU(F32(), from + hn::Lanes(F32()));
  }
};

struct DecodeBf16 {
  using Storage = std::uint16_t;
  static HWY_INLINE hn::Vec<F32> widen(const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, F32> d16;
    const hn::Rebind<std::uint32_t, F32> d32;
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
  }
  static HWY_INLINE void load(const std::uint16_t* from, hn::Vec<F32>& low, hn::Vec<F32>& high) {
    low = widen(from);
    high = widen(from + hn::Lanes(F32()));
  }
};

// Two vectors of f32 from one of f16 bits.
using U16 = hn::Repartition<std::uint16_t, F32>;
HWY_INLINE void widen_f16(hn::Vec<U16> bits, hn::Vec<F32>& low, hn::Vec<F32>& high) {
  const hn::Half<U16> half;
  const hn::Rebind<hwy::float16_t, F32> df16;
  low = hn::PromoteTo(F32(), hn::BitCast(df16, hn::LowerHalf(half, bits)));
  high = hn::PromoteTo(F32(), hn::BitCast(df16, hn::UpperHalf(half, bits)));
}

struct DecodeF16 {
  using Storage = std::uint16_t;
  static HWY_INLINE void load(const std::uint16_t* from, hn::Vec<F32>& low, hn::Vec<F32>& high) {
    widen_f16(hn::LoadU(U16(), from), low, high);
  }
};

HWY_INLINE hn::Vec<U16> load_bytes(const std::uint8_t* from) {
  return hn::PromoteTo(U16(), hn::LoadU(hn::Rebind<std::uint8_t, U16>(), from));
}

// The upper byte of an f16 is an e5m2 of the same value.
struct DecodeE5m2 {
  using Storage = std::uint8_t;
  static HWY_INLINE void load(const std::uint8_t* from, hn::Vec<F32>& low, hn::Vec<F32>& high) {
    widen_f16(hn::ShiftLeft<8>(load_bytes(from)), low, high);
  }
};

// An e4m3 shifted into an f16 is 2^-8 of its value, subnormals included: the conversion of f16 has
// no slow path for them. 0x7F and 0xFF become an f16 NaN.
struct DecodeE4m3 {
  using Storage = std::uint8_t;
  static HWY_INLINE void load(const std::uint8_t* from, hn::Vec<F32>& low, hn::Vec<F32>& high) {
    const U16 d16;
    const auto code = load_bytes(from);
    const auto magnitude = hn::And(code, hn::Set(d16, 0x7F));
    const auto sign = hn::ShiftLeft<8>(hn::Xor(code, magnitude));
    const auto nan = hn::VecFromMask(d16, hn::Eq(magnitude, hn::Set(d16, 0x7F)));
    const auto nan_bits = hn::And(nan, hn::Set(d16, 0x7E00));
    widen_f16(hn::Or(hn::Or(sign, hn::ShiftLeft<7>(magnitude)), nan_bits), low, high);
    const auto scale = hn::Set(F32(), 256.0f);
    low = hn::Mul(low, scale);
    high = hn::Mul(high, scale);
  }
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
