// Quantised tensors as another library might lay them out: any block, values of any strides and
// alignment, scales with gaps between them. Values and scales share one piece of memory, so that
// one image has both. Scales are read without the library's code.
#pragma once

#include <octet/quantized.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace octet::testing {

inline constexpr BlockShape kAllBlocks[] = {kBlock1x128, kBlock128x1,  kBlock128x128, kEachRow,
                                            kEachColumn, kWholeTensor, kBlock1x32,    kBlock32x32};

inline std::uint8_t code_of(const QuantizedView& view, std::int64_t row, std::int64_t col) {
  return static_cast<const std::uint8_t*>(
      view.values.data)[row * view.values.strides[0] + col * view.values.strides[1]];
}

// The scale of block [i, j].
inline double block_scale_number(const QuantizedView& view, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * view.scales.strides[0] + j * view.scales.strides[1];
  if (view.scales.dtype == Dtype::f32) return static_cast<const float*>(view.scales.data)[at];
  const int code = static_cast<const std::uint8_t*>(view.scales.data)[at];
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

// The scale of an element.
inline double scale_number(const QuantizedView& view, std::int64_t row, std::int64_t col) {
  return block_scale_number(view, view.block.rows == kAll ? 0 : row / view.block.rows,
                            view.block.cols == kAll ? 0 : col / view.block.cols);
}

class ForeignQuantized {
 public:
  // The values start `offset` bytes behind a boundary of 16 bytes.
  ForeignQuantized(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block,
                   std::int64_t row_stride, std::int64_t col_stride, std::int64_t offset = 3) {
    const std::int64_t scale_rows = blocks_along(rows, block.rows);
    const std::int64_t scale_cols = blocks_along(cols, block.cols);
    const std::int64_t reach = offset + (rows - 1) * row_stride + (cols - 1) * col_stride + 1;
    const std::int64_t scales_at = (reach + 15) / 16 * 16;
    const Dtype scales = scale_dtype(block);
    memory_ = Buffer(static_cast<std::size_t>(scales_at + 4 * 3 * (scale_rows + 1) * scale_cols));
    auto* const bytes = static_cast<std::uint8_t*>(memory_.data());
    std::fill_n(bytes, memory_.bytes(), std::uint8_t{0xA5});
    view_ = QuantizedView(make_matrix(bytes + offset, dtype, rows, cols, row_stride),
                          make_matrix(bytes + scales_at, scales, scale_rows, scale_cols, 3), block);
    view_.values.strides[1] = col_stride;
    view_.scales.strides[1] = 3 * scale_rows + 1;
  }

  const QuantizedView& view() const { return view_; }
  const Buffer& memory() const { return memory_; }

  void set_code(std::int64_t row, std::int64_t col, std::uint8_t code) const {
    const TensorView& values = view_.values;
    static_cast<std::uint8_t*>(values.data)[row * values.strides[0] + col * values.strides[1]] =
        code;
  }
  void set_f32_scale(std::int64_t i, std::int64_t j, float scale) const {
    static_cast<float*>(view_.scales.data)[scale_at(i, j)] = scale;
  }
  void set_mx_scale(std::int64_t i, std::int64_t j, std::uint8_t code) const {
    static_cast<std::uint8_t*>(view_.scales.data)[scale_at(i, j)] = code;
  }

  // Random codes, NaN and infinities among them, and scales of many magnitudes.
  void fill(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (std::int64_t r = 0; r < view_.values.rows(); ++r) {
      for (std::int64_t c = 0; c < view_.values.cols(); ++c) {
        set_code(r, c, static_cast<std::uint8_t>(random()));
      }
    }
    for (std::int64_t i = 0; i < view_.scales.rows(); ++i) {
      for (std::int64_t j = 0; j < view_.scales.cols(); ++j) {
        const int exponent = static_cast<int>(random() % 60) - 40;
        if (view_.scales.dtype == Dtype::f32) {
          const float mantissa = 1 + static_cast<float>(random() % 1000003) / 1000003;
          set_f32_scale(i, j, std::ldexp(mantissa, exponent));
        } else {
          set_mx_scale(i, j, static_cast<std::uint8_t>(127 + exponent));
        }
      }
    }
  }

 private:
  std::int64_t scale_at(std::int64_t i, std::int64_t j) const {
    return i * view_.scales.strides[0] + j * view_.scales.strides[1];
  }

  Buffer memory_;
  QuantizedView view_;
};

}  // namespace octet::testing
