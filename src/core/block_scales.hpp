// The scales of quantised tensors of any block: as f32, whatever their dtype, and by element.
#pragma once

#include "core/numeric.hpp"

#include <octet/quantized.hpp>

#include <string_view>

namespace octet {

// One of the blocks of octet/quantized.hpp.
void check_any_block(std::string_view op, std::string_view name, BlockShape block);

inline constexpr std::uint8_t kUe8m0Nan = 0xFF;

// 2^(code - 127), exact: code 0 is a subnormal f32.
OCTET_HOST_DEVICE constexpr float f32_from_ue8m0(std::uint8_t code) {
  if (code == kUe8m0Nan) return f32_from_bits(0x7FC00000u);
  return f32_from_bits(code == 0 ? 0x00400000u : std::uint32_t{code} << 23);
}

// A scale, f32 or ue8m0.
constexpr float load_scale(const void* data, std::int64_t index, Dtype dtype) {
  return dtype == Dtype::ue8m0 ? f32_from_ue8m0(static_cast<const std::uint8_t*>(data)[index])
                               : static_cast<const float*>(data)[index];
}

// Which block of `block` rows or columns, or kAll, has row or column `index`.
OCTET_HOST_DEVICE constexpr std::int64_t block_of(std::int64_t index, std::int64_t block) {
  return block == kAll ? 0 : index / block;
}

// The scale of an element.
inline float scale_of(const QuantizedView& view, std::int64_t row, std::int64_t col) {
  const TensorView& scales = view.scales;
  return load_scale(scales.data,
                    block_of(row, view.block.rows) * scales.strides[0] +
                        block_of(col, view.block.cols) * scales.strides[1],
                    scales.dtype);
}

}  // namespace octet
