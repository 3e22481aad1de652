// The scale of an mx block, 2^exponent: the exponent is read from the bits of the block's largest
// magnitude. Host and device.
#pragma once

#include "core/numeric.hpp"

#include <octet/ops/quantize.hpp>

namespace octet {

// Exponents of mx blocks are -127 to 127; as ue8m0, the exponent plus this.
inline constexpr int kMxBias = 127;

// 2^exponent for -127 (a subnormal) to 127.
OCTET_HOST_DEVICE constexpr float power_of_two(int exponent) {
  return f32_from_bits(exponent < -126 ? 1u << 22
                                       : static_cast<std::uint32_t>(exponent + 127) << 23);
}

// How the exponent of an mx block is read from the bits of its largest magnitude.
struct MxRule {
  std::uint32_t rounding;  // added to the bits: the carry into the exponent rounds up
  int limit_exponent;      // of the format's largest value
};

OCTET_HOST_DEVICE constexpr MxRule mx_rule(MxScale scale, const Fp8Format& format) {
  constexpr std::uint32_t kMantissa = 0x007FFFFFu;
  const std::uint32_t limit = bits_of(format.limit);
  // even: half a unit of the format's mantissa. up: whatever is above the limit's mantissa carries.
  const std::uint32_t rounding = scale == MxScale::even ? 1u << (22 - format.mantissa_bits)
                                 : scale == MxScale::up ? kMantissa - (limit & kMantissa)
                                                        : 0;
  return {rounding, static_cast<int>(limit >> 23) - 127};
}

// amax: the largest finite magnitude of the block, 0 if there is none. Subnormal ones are clamped.
OCTET_HOST_DEVICE constexpr int mx_exponent(float amax, const MxRule& rule) {
  const int exponent =
      static_cast<int>((bits_of(amax) + rule.rounding) >> 23) - 127 - rule.limit_exponent;
  return amax == 0 || exponent < -kMxBias ? -kMxBias : exponent;
}

}  // namespace octet
