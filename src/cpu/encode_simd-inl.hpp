// A vector of f32 rounded to the float types, to nearest even, as core/numeric.hpp rounds one
// element. Per-target code: see cpu/simd_targets.hpp.
#if defined(OCTET_CPU_ENCODE_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_ENCODE_SIMD_INL_HPP
#undef OCTET_CPU_ENCODE_SIMD_INL_HPP
#else
#define OCTET_CPU_ENCODE_SIMD_INL_HPP
#endif

#include "cpu/decode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// Each encoder reads what it writes, as its decoder does.
struct EncodeF32 : DecodeF32 {
  static HWY_INLINE void store(hn::Vec<F32> value, float* to) { hn::StoreU(value, F32(), to); }
};

struct EncodeF16 : DecodeF16 {
  static HWY_INLINE void store(hn::Vec<F32> value, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, F32> d16;
    const hn::Rebind<hwy::float16_t, F32> df16;
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(df16, value)), d16, to);
  }
};

struct EncodeBf16 : DecodeBf16 {
  static HWY_INLINE void store(hn::Vec<F32> value, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, F32> d16;
    const hn::Rebind<std::uint32_t, F32> d32;
    const auto bits = hn::BitCast(d32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF)));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
    const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(chosen)), d16, to);
  }
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
