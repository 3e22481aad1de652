// The expected FP8 values and scales, from the definition of the formats in f64: a table of all
// values, with the nearest found by exact comparison. Shares no code with the implementations.
#pragma once

#include <octet/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace octet::oracle {

class Fp8Table {
 public:
  explicit Fp8Table(Dtype format) : is_e5m2_(format == Dtype::e5m2) {
    const int mantissa_bits = is_e5m2_ ? 2 : 3;
    const int bias = is_e5m2_ ? 15 : 7;
    const int last = is_e5m2_ ? 0x7B : 0x7E;
    for (int code = 0; code <= last; ++code) {
      const int exponent = code >> mantissa_bits;
      const int mantissa = code & ((1 << mantissa_bits) - 1);
      values_.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                      : std::ldexp((1 << mantissa_bits) + mantissa,
                                                   exponent - bias - mantissa_bits));
    }
  }

  // The finite, non-negative values, indexed by code.
  const std::vector<double>& values() const { return values_; }
  double limit() const { return values_.back(); }

  double decode(std::uint8_t code) const {
    const std::size_t magnitude = code & 0x7Fu;
    const double sign = (code & 0x80u) != 0 ? -1 : 1;
    if (magnitude < values_.size()) return sign * values_[magnitude];
    if (is_e5m2_ && magnitude == 0x7C) return sign * std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }

  std::uint8_t encode(float value) const {
    const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) return 0x7F;
    if (std::isinf(value)) return is_e5m2_ ? static_cast<std::uint8_t>(sign | 0x7C) : 0x7F;
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return static_cast<std::uint8_t>(sign | (values_.size() - 1));
    auto code = static_cast<std::size_t>(above - values_.begin());
    if (code > 0) {
      const double up = *above - magnitude;
      const double down = magnitude - values_[code - 1];
      if (down < up || (down == up && (code - 1) % 2 == 0)) --code;
    }
    return static_cast<std::uint8_t>(sign | code);
  }

 private:
  bool is_e5m2_;
  std::vector<double> values_;
};

struct Scale {
  float forward;
  float inverse;
};

// f64 quotients and products of f32 numbers, rounded to f32, are correctly rounded.
inline Scale block_scale(const std::vector<float>& block, double limit, float floor, bool pow2) {
  double a = floor;
  for (float x : block) {
    if (std::isfinite(x)) a = std::max(a, std::fabs(static_cast<double>(x)));
  }
  if (a == 0) return {1, 1};
  a = std::max(a, std::ldexp(limit, -126));
  auto inverse = static_cast<float>(a / limit);
  if (!pow2) return {static_cast<float>(limit / a), inverse};
  int exponent = 0;
  if (std::frexp(inverse, &exponent) == 0.5f) --exponent;
  inverse = std::ldexp(1.0f, exponent);
  return {std::ldexp(1.0f, -exponent), inverse};
}

inline float product(float x, float forward) {
  return static_cast<float>(static_cast<double>(x) * static_cast<double>(forward));
}

}  // namespace octet::oracle
