// Rounding from f64 to the output dtypes, written from the definition of the formats, for tests
// that know the exact result.
#pragma once

#include <octet/dtype.hpp>

#include <algorithm>
#include <cmath>

namespace octet::testing {

struct FloatFormat {
  int mantissa_bits;
  int smallest_exponent;  // of a normal number
  double largest;
};

inline FloatFormat float_format(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return {10, -14, 65504.0};
    case Dtype::bf16: return {7, -126, std::ldexp(2.0 - std::ldexp(1.0, -7), 127)};
    default: return {23, -126, std::ldexp(2.0 - std::ldexp(1.0, -23), 127)};
  }
}

// Rounds to nearest, ties to even; overflow gives infinity.
inline double rounded(double value, Dtype dtype) {
  if (value == 0 || !std::isfinite(value)) return value;
  const FloatFormat format = float_format(dtype);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int step = std::max(exponent - 1, format.smallest_exponent) - format.mantissa_bits;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  return std::fabs(result) > format.largest ? std::copysign(HUGE_VAL, value) : result;
}

}  // namespace octet::testing
