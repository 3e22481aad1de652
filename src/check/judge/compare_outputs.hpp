// Two outputs compared as a whole, element by element, on the CPU or on one CUDA device: two runs
// of one call, or two implementations of one product.
#pragma once

#include "core/numeric.hpp"

#include <octet/quantized.hpp>

#include <cstdint>
#include <limits>

namespace octet {

struct OutputDifferences {
  std::int64_t different = 0;     // elements that differ in any bit
  std::int64_t largest_ulps = 0;  // the largest distance, in ulps of the dtype; kFar: NaN in one
};

inline constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

// `x` and `y`: matrices of one shape and dtype in any strides, on one device.
OutputDifferences compare_whole_outputs(const TensorView& x, const TensorView& y);
// Values and scales of two quantised tensors of one shape and block that differ in any bit.
std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted);

// The largest bit pattern, without the sign, that is not a NaN.
OCTET_HOST_DEVICE constexpr std::uint32_t largest_bits_of_numbers(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 0x7F800000u;
    case Dtype::bf16: return 0x7F80u;
    case Dtype::f16: return 0x7C00u;
    case Dtype::e5m2: return 0x7Cu;
    default: return 0x7Eu;  // e4m3
  }
}

// The distance of two elements in representable numbers; both zeros count as one number, and so do
// all NaNs.
OCTET_HOST_DEVICE constexpr std::int64_t ulps_apart(std::uint32_t x, std::uint32_t y, Dtype dtype) {
  const std::uint32_t sign = dtype == Dtype::f32                           ? 0x80000000u
                             : dtype == Dtype::f16 || dtype == Dtype::bf16 ? 0x8000u
                                                                           : 0x80u;
  const std::int64_t x_size = x & (sign - 1);
  const std::int64_t y_size = y & (sign - 1);
  const std::int64_t limit = largest_bits_of_numbers(dtype);
  if (x_size > limit || y_size > limit) return x_size > limit && y_size > limit ? 0 : kFar;
  const std::int64_t distance = ((x & sign) != 0 ? -x_size : x_size) -  //
                                ((y & sign) != 0 ? -y_size : y_size);
  return distance < 0 ? -distance : distance;
}

// Element `index` of memory that holds elements of 1, 2 or 4 bytes.
OCTET_HOST_DEVICE constexpr std::uint32_t bits_at(const void* data, std::int64_t index,
                                                  int element_bytes) {
  switch (element_bytes) {
    case 1: return static_cast<const std::uint8_t*>(data)[index];
    case 2: return static_cast<const std::uint16_t*>(data)[index];
    default: return static_cast<const std::uint32_t*>(data)[index];
  }
}

}  // namespace octet
