// exp(-x) in f32, host and device, with the same bits on both: the steps of
// cpu/exp_of_minus-inl.hpp for one number. Relative error at most 5e-7, for |x| < 20 at most
// 2.2e-7; infinity below x = -88.38, 0 above 87.69, NaN for NaN.
#pragma once

#include "core/numeric.hpp"

#include <cmath>

namespace octet {

// exp(-x) = 2^n exp(r), n the nearest integer to -x / ln 2. Adding 1.5 * 2^23 + 127 leaves n + 127,
// the exponent of 2^n, in the low bits.
OCTET_HOST_DEVICE inline float exp_of_minus(float x) {
  if (x != x) return x;
  // The bounds give n = 128 and n = -127, whose powers of two are infinity and 0.
  const float above = x > 88.1f ? 88.1f : x;
  const float clamped = above < -89.0f ? -89.0f : above;
  constexpr float kAnchor = 12583039.0f;
  const float shifted = std::fma(-clamped, 0x1.715476p+0f, kAnchor);
  const float power = f32_from_bits(bits_of(shifted) << 23);
  const float n = shifted - kAnchor;
  const float r = std::fma(-n, 0x1.62e430p-1f, -clamped);  // ln 2 is off by 2e-9
  // Minimax polynomial of exp(r), relative error 1.1e-7 for |r| <= ln 2 / 2.
  float p = std::fma(r, 0x1.106278p-7f, 0x1.572a06p-5f);
  p = std::fma(p, r, 0x1.5557aep-3f);
  p = std::fma(p, r, 0x1.fffdfcp-2f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  return p * power;
}

}  // namespace octet
