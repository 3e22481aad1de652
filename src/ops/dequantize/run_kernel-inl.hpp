// One run of 128 elements: decode, multiply, round. Included once per instruction set.
#if defined(OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#undef OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#else
#define OCTET_OPS_DEQUANTIZE_RUN_KERNEL_INL
#endif

#include "cpu/encode_simd-inl.hpp"
#include "ops/dequantize/cpu_simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

template <class Decode, class Encode>
void dequantize_one_run(const std::uint8_t* codes, const float* scales, void* out) {
  const std::size_t lanes = hn::Lanes(F32());
  auto* to = static_cast<typename Encode::Storage*>(out);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kBlock); i += 2 * lanes) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Decode::load(codes + i, low, high);
    Encode::store(hn::Mul(low, hn::LoadU(F32(), scales + i)), to + i);
    Encode::store(hn::Mul(high, hn::LoadU(F32(), scales + i + lanes)), to + i + lanes);
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
