// A matrix with a gap behind every row. All bytes begin as a pattern, so that elements that were
// not written and writes into the gaps show.
#pragma once

#include "core/numeric.hpp"
#include "support/simd.hpp"

#include <octet/tensor.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace octet {

inline constexpr std::int64_t kGap = 3;  // elements behind every row, unless told otherwise
inline constexpr unsigned char kPoison = 0xA5;

class Gapped {
 public:
  Gapped(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap = kGap)
      : bytes_(static_cast<std::size_t>(rows * (cols + gap) * size_bytes(dtype)), kPoison),
        view_(make_matrix(bytes_.data(), dtype, rows, cols, cols + gap)) {}
  Gapped(Gapped&&) = default;
  Gapped& operator=(Gapped&&) = default;

  const TensorView& view() const { return view_; }
  float at(std::int64_t row, std::int64_t col) const {
    return load_f32(view_.data, row * view_.strides[0] + col, view_.dtype);
  }
  void set(std::int64_t row, std::int64_t col, float value) {
    store_f32(view_.data, row * view_.strides[0] + col, view_.dtype, value);
  }
  std::int32_t& integer(std::int64_t row, std::int64_t col) const {
    return static_cast<std::int32_t*>(view_.data)[row * view_.strides[0] + col];
  }
  void fill(std::uint64_t seed, float scale = 1) {
    Random random(seed);
    std::normal_distribution<float> normal(0, scale);
    for (std::int64_t r = 0; r < view_.rows(); ++r) {
      for (std::int64_t c = 0; c < view_.cols(); ++c) set(r, c, normal(random));
    }
  }
  void set_row(std::int64_t row, const std::vector<float>& values) {
    for (std::size_t c = 0; c < values.size(); ++c)
      set(row, static_cast<std::int64_t>(c), values[c]);
  }
  std::vector<float> row(std::int64_t r) const {
    std::vector<float> values;
    for (std::int64_t c = 0; c < view_.cols(); ++c) values.push_back(at(r, c));
    return values;
  }
  std::vector<std::int32_t> integers(std::int64_t r) const {
    return {&integer(r, 0), &integer(r, 0) + view_.cols()};
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  void expect_gaps_untouched() const {
    const auto element = static_cast<std::size_t>(size_bytes(view_.dtype));
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::size_t pitch = static_cast<std::size_t>(view_.strides[0]) * element;
      if (i % pitch < static_cast<std::size_t>(view_.cols()) * element) continue;
      ASSERT_EQ(bytes_[i], kPoison) << "byte " << i;
    }
  }

 private:
  std::vector<unsigned char> bytes_;
  TensorView view_;
};

}  // namespace octet
