// Scalar number formats, host and device, with no dependence on compiler flags: bf16, f16 and FP8
// to and from f32. Rounding is to nearest even throughout.
#pragma once

#include <octet/dtype.hpp>

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define OCTET_HOST_DEVICE __host__ __device__
#else
#define OCTET_HOST_DEVICE
#endif

namespace octet {

OCTET_HOST_DEVICE constexpr float f32_from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
OCTET_HOST_DEVICE constexpr std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

OCTET_HOST_DEVICE constexpr float f32_from_bf16(std::uint16_t value) {
  return f32_from_bits(std::uint32_t{value} << 16);
}

OCTET_HOST_DEVICE constexpr std::uint16_t bf16_from_f32(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

OCTET_HOST_DEVICE constexpr float f32_from_f16(std::uint16_t value) {
  const std::uint32_t sign = std::uint32_t{value & 0x8000u} << 16;
  const std::uint32_t magnitude = value & 0x7FFFu;
  if (magnitude >= 0x7C00u) return f32_from_bits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  if (magnitude >= 0x0400u) return f32_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * f32_from_bits(103u << 23);  // 2^-24
  return f32_from_bits(sign | bits_of(subnormal));
}

OCTET_HOST_DEVICE constexpr std::uint16_t f16_from_f32(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // >= 65520
  if (magnitude >= 0x38800000u) {                                                   // >= 2^-14
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
  }
  // Adding 0.5 (ulp 2^-24) leaves the subnormal, rounded to nearest even, in the low bits.
  const float shifted = f32_from_bits(magnitude) + 0.5f;
  return static_cast<std::uint16_t>(sign | (bits_of(shifted) - bits_of(0.5f)));
}

// The numbers of one FP8 format.
struct Fp8Format {
  int mantissa_bits;
  int exponent_bias;
  float limit;              // largest finite value
  std::uint8_t limit_code;  // its encoding
  std::uint8_t nan_code;
  std::uint8_t infinity_code;  // without the sign; the NaN code if there are no infinities
};

OCTET_HOST_DEVICE constexpr Fp8Format fp8_format(Dtype dtype) {
  return dtype == Dtype::e5m2 ? Fp8Format{2, 15, 57344.0f, 0x7B, 0x7F, 0x7C}
                              : Fp8Format{3, 7, 448.0f, 0x7E, 0x7F, 0x7F};
}

inline constexpr Fp8Format kE4m3 = fp8_format(Dtype::e4m3);
inline constexpr Fp8Format kE5m2 = fp8_format(Dtype::e5m2);

// Finite values saturate; NaN and, in e4m3, infinities become 0x7F.
OCTET_HOST_DEVICE constexpr std::uint8_t fp8_from_f32(float value, const Fp8Format& format) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return format.nan_code;
  if (magnitude == 0x7F800000u) {
    return format.infinity_code == format.nan_code
               ? format.nan_code
               : static_cast<std::uint8_t>(sign | format.infinity_code);
  }
  if (magnitude >= bits_of(format.limit))
    return static_cast<std::uint8_t>(sign | format.limit_code);
  const int dropped_bits = 23 - format.mantissa_bits;
  const std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - format.exponent_bias)
                                        << 23;
  if (magnitude < smallest_normal) {
    // Adding a power of two whose ulp is the subnormal step rounds to nearest even.
    const int step_exponent = 1 - format.exponent_bias - format.mantissa_bits;
    const float anchor = f32_from_bits(static_cast<std::uint32_t>(127 + step_exponent + 23) << 23);
    const float shifted = f32_from_bits(magnitude) + anchor;
    return static_cast<std::uint8_t>(sign | (bits_of(shifted) - bits_of(anchor)));
  }
  const std::uint32_t half_minus_one = (1u << (dropped_bits - 1)) - 1u;
  const std::uint32_t rounded = magnitude + half_minus_one + ((magnitude >> dropped_bits) & 1u);
  const std::uint32_t rebias = static_cast<std::uint32_t>(127 - format.exponent_bias) << 23;
  return static_cast<std::uint8_t>(sign | ((rounded - rebias) >> dropped_bits));
}

OCTET_HOST_DEVICE constexpr float f32_from_e5m2(std::uint8_t code) {
  return f32_from_f16(static_cast<std::uint16_t>(code << 8));
}

OCTET_HOST_DEVICE constexpr float f32_from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code & 0x80u} << 24;
  const std::uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu) return f32_from_bits(sign | 0x7FC00000u);
  if (magnitude >= 8u) return f32_from_bits(sign | ((magnitude << 20) + (120u << 23)));
  return f32_from_bits(sign | bits_of(static_cast<float>(magnitude) * (1.0f / 512.0f)));
}

// Any dtype to f32 and back, one element at `index`.
constexpr float load_f32(const void* data, std::int64_t index, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[index];
    case Dtype::f16: return f32_from_f16(static_cast<const std::uint16_t*>(data)[index]);
    case Dtype::bf16: return f32_from_bf16(static_cast<const std::uint16_t*>(data)[index]);
    case Dtype::e4m3: return f32_from_e4m3(static_cast<const std::uint8_t*>(data)[index]);
    case Dtype::e5m2: return f32_from_e5m2(static_cast<const std::uint8_t*>(data)[index]);
    case Dtype::ue8m0:
    case Dtype::i32:
    case Dtype::i64: break;
  }
  return 0;
}

// Only f32, f16 and bf16: FP8 is written by the quantiser.
constexpr void store_f32(void* data, std::int64_t index, Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::f32: static_cast<float*>(data)[index] = value; break;
    case Dtype::f16: static_cast<std::uint16_t*>(data)[index] = f16_from_f32(value); break;
    case Dtype::bf16: static_cast<std::uint16_t*>(data)[index] = bf16_from_f32(value); break;
    default: break;
  }
}

}  // namespace octet
