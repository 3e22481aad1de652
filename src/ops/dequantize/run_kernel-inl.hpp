// One run of 128 elements: decode, multiply, round. Included once per instruction set.
#if defined(OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#undef OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#else
#define OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#endif

#include "cpu/fp8_decode-inl.hpp"
#include "ops/dequantize/cpu_simd.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;

struct StoreF32 {
  static HWY_INLINE void At(hn::Vec<F32> values, void* out, std::size_t index) {
    hn::StoreU(values, F32(), static_cast<float*>(out) + index);
  }
};

struct StoreF16 {
  static HWY_INLINE void At(hn::Vec<F32> values, void* out, std::size_t index) {
    const hn::Rebind<hwy::float16_t, F32> half;
    const hn::Rebind<std::uint16_t, F32> d16;
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, values)), d16,
               static_cast<std::uint16_t*>(out) + index);
  }
};

// bf16_from_f32, lane by lane.
struct StoreBf16 {
  static HWY_INLINE void At(hn::Vec<F32> values, void* out, std::size_t index) {
    const hn::RebindToUnsigned<F32> du;
    const hn::Rebind<std::uint16_t, F32> d16;
    const auto bits = hn::BitCast(du, values);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7FFFFFFFu)), hn::Set(du, 0x7F800000u));
    const auto result = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(du, 0x40u)), rounded);
    const auto narrow = hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<F32>(), result));
    hn::StoreU(narrow, d16, static_cast<std::uint16_t*>(out) + index);
  }
};

template <bool kIsE5m2, class Store>
void DequantizeOneRun(const std::uint8_t* codes, const float* scales, void* out) {
  const F32 d;
  const hn::Rebind<std::uint8_t, F32> d8;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kBlock); i += hn::Lanes(d)) {
    const auto lanes = hn::LoadU(d8, codes + i);
    const auto values = kIsE5m2 ? DecodeE5m2(lanes) : DecodeE4m3(lanes);
    Store::At(hn::Mul(values, hn::LoadU(d, scales + i)), out, i);
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
