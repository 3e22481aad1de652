// How the Hopper kernel multiplies FP8 values by 2^-shift: as halves, by one or two powers of two. All
// products that do not round to zero in FP8 are exact. Host and device.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

// The bits of 2^-shift as f16, for 0 to 24.
OCTET_HOST_DEVICE constexpr std::uint32_t half_of_shift(int shift) {
  return shift < 15 ? static_cast<std::uint32_t>(15 - shift) << 10
                    : std::uint32_t{1} << (24 - shift);
}

inline constexpr int kFirstFold = 16;
inline constexpr int kLargestHalfShift = 24;

// Two halves in one word, the first in the low one. In e4m3 they are the same, a pair to multiply
// two values by: beyond 2^-24 everything rounds to zero, as 448 * 2^-24 does. In e5m2 57344 * 2^-24
// does not, and a value is multiplied by both.
OCTET_HOST_DEVICE constexpr std::uint32_t fold_factors(int shift, bool e5m2) {
  const auto half = [](int value) {
    return half_of_shift(value < kLargestHalfShift ? value : kLargestHalfShift);
  };
  if (!e5m2) return half(shift) * 0x10001u;
  const int first = shift < kFirstFold ? shift : kFirstFold;
  return half(first) | half(shift - first) << 16;
}

}  // namespace octet::sm90
