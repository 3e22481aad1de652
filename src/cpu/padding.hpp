// The padding of a quantised output.
#pragma once

#include <octet/quantized.hpp>

#include <algorithm>
#include <cstring>

namespace octet {

// Clears the padding of a view that owns it: values to 0, scales to 1. Skips other views.
inline void clear_padding(const QuantizedView& view) {
  if (!view.owns_padding) return;
  const std::int64_t pitch = view.values.strides[0];
  const std::int64_t cols = view.values.cols();
  auto* values = static_cast<std::uint8_t*>(view.values.data);
  for (std::int64_t r = 0; cols < pitch && r < view.values.rows(); ++r) {
    std::memset(values + r * pitch + cols, 0, static_cast<std::size_t>(pitch - cols));
  }
  const int contiguous = view.scales.strides[0] == 1 ? 0 : 1;
  const std::int64_t lines = view.scales.shape[1 - contiguous];
  const std::int64_t length = view.scales.shape[contiguous];
  const std::int64_t step = view.scales.strides[1 - contiguous];
  auto* scales = static_cast<float*>(view.scales.data);
  for (std::int64_t line = 0; length < step && line < lines; ++line) {
    std::fill(scales + line * step + length, scales + (line + 1) * step, 1.0f);
  }
}

}  // namespace octet
