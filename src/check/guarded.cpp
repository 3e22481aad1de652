#include "check/guarded.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octet {
namespace {

constexpr std::size_t kBand = 4096;
constexpr unsigned char kPattern = 0xA5;
constexpr std::uint8_t kFp8Poison = 0xFF;  // a NaN with a sign: the quantiser writes 0x7F

std::uint32_t poison_bits(Dtype dtype) {
  if (dtype == Dtype::f32) return 0x7FC5A5A5u;
  return dtype == Dtype::bf16 ? 0x7FE5u : 0x7EA5u;
}

std::int64_t changed_bytes(const unsigned char* begin, const unsigned char* end) {
  return (end - begin) - std::count(begin, end, kPattern);
}

template <class T>
std::int64_t count_equal(const unsigned char* row, std::int64_t cols, std::uint32_t bits) {
  const auto* elements = reinterpret_cast<const T*>(row);
  return std::count(elements, elements + cols, static_cast<T>(bits));
}

}  // namespace

GuardedMatrix::GuardedMatrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap) {
  const std::int64_t pitch = cols + gap;
  const auto bytes = static_cast<std::size_t>(rows * pitch * size_bytes(dtype));
  memory_ = Buffer(bytes + 2 * kBand);
  std::memset(memory_.data(), kPattern, memory_.bytes());
  view_ =
      make_matrix(static_cast<unsigned char*>(memory_.data()) + kBand, dtype, rows, cols, pitch);
  const std::uint32_t bits = poison_bits(dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (dtype == Dtype::f32) {
      std::fill_n(static_cast<std::uint32_t*>(view_.data) + r * pitch, cols, bits);
    } else {
      std::fill_n(static_cast<std::uint16_t*>(view_.data) + r * pitch, cols,
                  static_cast<std::uint16_t>(bits));
    }
  }
}

void GuardedMatrix::fill_from(const TensorView& matrix) {
  const std::int64_t size = size_bytes(view_.dtype);
  for (std::int64_t r = 0; r < view_.rows(); ++r) {
    std::memcpy(static_cast<char*>(view_.data) + r * view_.strides[0] * size,
                static_cast<const char*>(matrix.data) + r * matrix.strides[0] * size,
                static_cast<std::size_t>(view_.cols() * size));
  }
  poisoned_ = false;
}

GuardFindings GuardedMatrix::inspect() const {
  const std::int64_t size = size_bytes(view_.dtype);
  const auto* memory = static_cast<const unsigned char*>(memory_.data());
  const auto* elements = memory + kBand;
  const std::int64_t pitch_bytes = view_.strides[0] * size;
  const std::int64_t row_bytes = view_.cols() * size;
  GuardFindings findings;
  findings.outside = changed_bytes(memory, elements);
  for (std::int64_t r = 0; r < view_.rows(); ++r) {
    const unsigned char* row = elements + r * pitch_bytes;
    findings.outside += changed_bytes(row + row_bytes, row + pitch_bytes);
    if (!poisoned_) continue;
    const std::uint32_t bits = poison_bits(view_.dtype);
    findings.unwritten += size == 4 ? count_equal<std::uint32_t>(row, view_.cols(), bits)
                                    : count_equal<std::uint16_t>(row, view_.cols(), bits);
  }
  findings.outside +=
      changed_bytes(elements + view_.rows() * pitch_bytes, memory + memory_.bytes());
  return findings;
}

GuardedQuantized::GuardedQuantized(const QuantizedLayout& layout, bool owns_padding)
    : layout_(layout), memory_(layout.bytes + 2 * kBand) {
  std::memset(memory_.data(), kPattern, memory_.bytes());
  view_ = layout.view(static_cast<unsigned char*>(memory_.data()) + kBand);
  view_.owns_padding = owns_padding;
  auto* values = static_cast<std::uint8_t*>(view_.values.data);
  for (std::int64_t r = 0; r < layout.rows; ++r) {
    std::fill_n(values + r * layout.pitch, layout.cols, kFp8Poison);
  }
  const int contiguous = layout.scale_strides[0] == 1 ? 0 : 1;
  const std::int64_t step = layout.scale_strides[1 - contiguous];
  auto* scales = static_cast<float*>(view_.scales.data);
  for (std::int64_t line = 0; line < layout.scale_shape[1 - contiguous]; ++line) {
    const std::int64_t length = owns_padding ? step : layout.scale_shape[contiguous];
    std::fill_n(scales + line * step, length, std::nanf(""));
  }
}

GuardFindings GuardedQuantized::inspect() const {
  GuardFindings findings;
  const auto* memory = static_cast<const unsigned char*>(memory_.data());
  const auto* values = static_cast<const unsigned char*>(view_.values.data);
  findings.outside = changed_bytes(memory, values);
  for (std::int64_t r = 0; r < layout_.rows; ++r) {
    const auto* row = values + r * layout_.pitch;
    const auto* padding = row + layout_.cols;
    findings.unwritten += std::count(row, padding, kFp8Poison);
    if (view_.owns_padding) {
      const std::int64_t length = layout_.pitch - layout_.cols;
      findings.bad_padding += length - std::count(padding, padding + length, 0);
    } else {
      findings.outside += changed_bytes(padding, row + layout_.pitch);
    }
  }
  const auto* scales_begin = values + layout_.scales_offset;
  findings.outside += changed_bytes(values + layout_.rows * layout_.pitch, scales_begin);

  const int contiguous = layout_.scale_strides[0] == 1 ? 0 : 1;
  const std::int64_t step = layout_.scale_strides[1 - contiguous];
  const std::int64_t lines = layout_.scale_shape[1 - contiguous];
  const std::int64_t length = layout_.scale_shape[contiguous];
  for (std::int64_t line = 0; line < lines; ++line) {
    const auto* scales = static_cast<const float*>(view_.scales.data) + line * step;
    const auto not_finite = [](float scale) { return !std::isfinite(scale); };
    findings.unwritten += std::count_if(scales, scales + length, not_finite);
    if (view_.owns_padding) {
      findings.bad_padding += std::count_if(scales + length, scales + step, not_finite);
    } else {
      findings.outside += changed_bytes(reinterpret_cast<const unsigned char*>(scales + length),
                                        reinterpret_cast<const unsigned char*>(scales + step));
    }
  }
  findings.outside += changed_bytes(scales_begin + lines * step * 4, memory + memory_.bytes());
  return findings;
}

}  // namespace octet
