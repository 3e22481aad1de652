// Quantised tensors in poisoned memory between guard bands. Two images of one layout, one written by
// the operator and one by the test, are compared byte for byte: a byte that was not written, or was
// written outside of the tensor, shows.
#pragma once

#include "core/checks.hpp"
#include "core/numeric.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace octet {

enum class Layout {
  ours,     // the padding belongs to the view
  foreign,  // gaps after rows, matrices and scales, which belong to nobody
};

class Image {
 public:
  static constexpr std::uint8_t kPoison = 0xA5;

  // [rows, cols], or [batch, rows, cols] if batch > 0.
  Image(Layout layout, std::int64_t batch, std::int64_t rows, std::int64_t cols, Dtype dtype,
        BlockShape block) {
    if (layout == Layout::foreign) {
      make_foreign(batch, rows, cols, dtype, block);
    } else if (batch > 0) {
      make(QuantizedBatchLayout(batch, rows, cols, dtype, block));
    } else {
      make(QuantizedLayout(rows, cols, dtype, block));
    }
  }
  static Image token_blocks(Layout layout, std::int64_t blocks, std::int64_t features, Dtype dtype,
                            BlockShape block) {
    if (layout == Layout::foreign) return {layout, blocks, features, kBlock, dtype, block};
    Image image;
    image.make(QuantizedBatchLayout::token_blocks(blocks, features, dtype, block));
    return image;
  }

  const QuantizedView& view() const { return view_; }
  // All of its memory, guard bands included.
  std::span<std::uint8_t> bytes() const {
    return {static_cast<std::uint8_t*>(memory_.data()), memory_.bytes()};
  }

  std::uint8_t* value(std::int64_t matrix, std::int64_t row, std::int64_t col) const {
    const TensorView& values = view_.values;
    return static_cast<std::uint8_t*>(values.data) + offset(values, matrix, row, col);
  }
  float* scale(std::int64_t matrix, std::int64_t row, std::int64_t col) const {
    return static_cast<float*>(view_.scales.data) + offset(view_.scales, matrix, row, col);
  }

  // Copies the values and scales of a matrix to matrix `matrix` of this image.
  void set_matrix(std::int64_t matrix, const QuantizedView& from) const {
    for (std::int64_t r = 0; r < from.values.rows(); ++r) {
      for (std::int64_t c = 0; c < from.values.cols(); ++c) {
        *value(matrix, r, c) =
            static_cast<std::uint8_t*>(from.values.data)[offset(from.values, 0, r, c)];
      }
    }
    for (std::int64_t r = 0; r < from.scales.rows(); ++r) {
      for (std::int64_t c = 0; c < from.scales.cols(); ++c) {
        *scale(matrix, r, c) = static_cast<float*>(from.scales.data)[offset(from.scales, 0, r, c)];
      }
    }
  }

  void expect_equal(const Image& wanted, const std::string& what) const {
    const auto* a = static_cast<const std::uint8_t*>(memory_.data());
    const auto* b = static_cast<const std::uint8_t*>(wanted.memory_.data());
    const auto [x, y] = std::mismatch(a, a + memory_.bytes(), b);
    EXPECT_EQ(x - a, static_cast<std::ptrdiff_t>(memory_.bytes()))
        << what << ": byte " << (x - static_cast<const std::uint8_t*>(view_.values.data))
        << " from the first value is " << int{*x} << ", wanted " << int{*y};
  }

 private:
  static constexpr std::size_t kGuard = 256;

  Image() = default;

  // The element of a matrix, or of one matrix of a batch.
  static std::int64_t offset(const TensorView& view, std::int64_t matrix, std::int64_t row,
                             std::int64_t col) {
    const int rows = view.rank - 2;
    return matrix * (rows > 0 ? view.strides[0] : 0) + row * view.strides[rows] +
           col * view.strides[rows + 1];
  }

  void allocate(std::size_t bytes) {
    memory_ = Buffer(bytes + 2 * kGuard);
    std::memset(memory_.data(), kPoison, memory_.bytes());
  }
  std::uint8_t* first() const { return static_cast<std::uint8_t*>(memory_.data()) + kGuard; }

  template <class AnyLayout>
  void make(const AnyLayout& layout) {
    allocate(layout.bytes);
    view_ = layout.view(first());
  }

  void make_foreign(std::int64_t batch, std::int64_t rows, std::int64_t cols, Dtype dtype,
                    BlockShape block) {
    const std::int64_t matrices = std::max<std::int64_t>(batch, 1);
    const std::int64_t pitch = round_up(cols, 16) + 32;
    const std::int64_t matrix_bytes = rows * pitch + 64;
    const std::int64_t scale_rows = ceil_div(rows, block.rows);
    const std::int64_t scale_cols = ceil_div(cols, block.cols);
    const std::int64_t scale_pitch = 2 * scale_cols + 1;
    const std::int64_t matrix_scales = scale_rows * scale_pitch + 3;
    const std::int64_t value_bytes = 48 + matrices * matrix_bytes;
    allocate(static_cast<std::size_t>(value_bytes + matrices * matrix_scales * 4));
    void* scales = first() + value_bytes;
    if (batch > 0) {
      view_.values = make_view(first() + 48, dtype, {batch, rows, cols});
      view_.scales = make_view(scales, Dtype::f32, {batch, scale_rows, scale_cols});
      view_.values.strides = {matrix_bytes, pitch, 1};
      view_.scales.strides = {matrix_scales, scale_pitch, 2};
    } else {
      view_.values = make_matrix(first() + 48, dtype, rows, cols, pitch);
      view_.scales = make_matrix(scales, Dtype::f32, scale_rows, scale_cols, scale_pitch);
      view_.scales.strides[1] = 2;
    }
    view_.block = block;
  }

  Buffer memory_;
  QuantizedView view_;
};

}  // namespace octet
