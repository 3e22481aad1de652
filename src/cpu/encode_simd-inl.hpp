// A vector of f32 rounded to the float types, to nearest even, as core/numeric.hpp rounds one
// element. Per-target code: see cpu/instruction_set.hpp.
#if defined(OCTET_CPU_ENCODE_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_ENCODE_SIMD_INL_HPP
#undef OCTET_CPU_ENCODE_SIMD_INL_HPP
#else
#define OCTET_CPU_ENCODE_SIMD_INL_HPP
#endif

#include "cpu/decode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// Each encoder also decodes its own format. A vector is stored at any address, or streamed past the
// caches to an aligned one.
struct EncodeF32 : DecodeF32 {
  static HWY_INLINE void store(hn::Vec<F32> value, float* to) { hn::StoreU(value, F32(), to); }
  static HWY_INLINE void stream(hn::Vec<F32> value, float* to) { hn::Stream(value, F32(), to); }
};

struct EncodeF16 : DecodeF16 {
  using D16 = hn::Rebind<std::uint16_t, F32>;

  static HWY_INLINE hn::Vec<D16> encode(hn::Vec<F32> value) {
    return hn::BitCast(D16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F32>(), value));
  }
  static HWY_INLINE hn::Vec<F32> decode(hn::Vec<D16> bits) {
    return hn::PromoteTo(F32(), hn::BitCast(hn::Rebind<hwy::float16_t, F32>(), bits));
  }
  static HWY_INLINE void store(hn::Vec<F32> value, std::uint16_t* to) {
    hn::StoreU(encode(value), D16(), to);
  }
  static HWY_INLINE void stream(hn::Vec<F32> value, std::uint16_t* to) {
    hn::Stream(encode(value), D16(), to);
  }
};

struct EncodeBf16 : DecodeBf16 {
  using D16 = hn::Rebind<std::uint16_t, F32>;

  static HWY_INLINE hn::Vec<D16> encode(hn::Vec<F32> value) {
    const hn::Rebind<std::uint32_t, F32> d32;
    const auto bits = hn::BitCast(d32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF)));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
    const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
    return hn::TruncateTo(D16(), hn::ShiftRight<16>(chosen));
  }
  static HWY_INLINE hn::Vec<F32> decode(hn::Vec<D16> bits) {
    return hn::BitCast(F32(),
                       hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<std::uint32_t, F32>(), bits)));
  }
  static HWY_INLINE void store(hn::Vec<F32> value, std::uint16_t* to) {
    hn::StoreU(encode(value), D16(), to);
  }
  static HWY_INLINE void stream(hn::Vec<F32> value, std::uint16_t* to) {
    hn::Stream(encode(value), D16(), to);
  }
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
