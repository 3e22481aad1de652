// What the forms of quantize must write, from their definition in f64: any block shape, any rule of
// scales, and the values that mx blocks fold into. Shares no code with the implementations.
#pragma once

#include "ops/quantize/fp8_oracle.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <functional>
#include <vector>

namespace octet::oracle {

// Codes and scales of one copy, dense and row-major.
struct Wanted {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t scale_cols = 0;
  std::vector<std::uint8_t> codes;
  std::vector<double> scales;
};

inline int floor_of_log2(double a) {
  int exponent = 0;
  std::frexp(a, &exponent);
  return exponent - 1;
}

inline int mx_exponent(double a, MxScale rule, Dtype format) {
  const int limit_exponent = format == Dtype::e5m2 ? 15 : 8;
  if (a == 0) return -127;
  int exponent = floor_of_log2(a) - limit_exponent;
  if (rule == MxScale::even) {
    const double unit = std::ldexp(1, floor_of_log2(a) - (format == Dtype::e5m2 ? 2 : 3));
    exponent = floor_of_log2(std::floor(a / unit + 0.5) * unit) - limit_exponent;
  } else if (rule == MxScale::up && std::ldexp(a, -exponent) > Fp8Table(format).limit()) {
    ++exponent;
  }
  return std::max(exponent, -127);
}

// The elements of one copy, in its coordinates, and the rules by which it is written.
class Copy {
 public:
  using At = std::function<float(std::int64_t row, std::int64_t col)>;

  Copy(const QuantizeProblem& problem, BlockShape block, std::int64_t rows, std::int64_t cols,
       At at)
      : problem_(problem), block_(block), table_(problem.format), at_(std::move(at)) {
    wanted_.rows = rows;
    wanted_.cols = cols;
    wanted_.scale_cols = blocks_along(cols, block.cols);
    wanted_.codes.resize(static_cast<std::size_t>(rows * cols));
  }

  // `given`: the scale of each block, if problem.given_scales.
  Wanted write(const std::function<float(std::size_t block)>& given = {}) {
    for (std::int64_t r = 0; r < wanted_.rows; r += extent(block_.rows, wanted_.rows)) {
      for (std::int64_t c = 0; c < wanted_.cols; c += extent(block_.cols, wanted_.cols)) {
        const Box box = box_of(block_, r, c, wanted_.rows, wanted_.cols);
        if (given) {
          wanted_.scales.push_back(given(wanted_.scales.size()));
          const float forward = 1 / static_cast<float>(wanted_.scales.back());
          cast(box, [forward](float x) { return product(x, forward); });
        } else if (problem_.fold_mx) {
          wanted_.scales.push_back(fold(box));
        } else if (block_ == kBlock1x32 || block_ == kBlock32x32) {
          wanted_.scales.push_back(cast_mx(box));
        } else {
          const Scale scale =
              block_scale(elements(box), table_.limit(), problem_.amax_floor, problem_.pow2_scales);
          wanted_.scales.push_back(scale.inverse);
          cast(box, [&scale](float x) { return product(x, scale.forward); });
        }
      }
    }
    return wanted_;
  }

 private:
  struct Box {
    std::int64_t row, rows, col, cols;  // first and one past the last
  };

  static std::int64_t extent(std::int64_t block, std::int64_t all) {
    return block == kAll ? all : block;
  }
  static Box box_of(BlockShape block, std::int64_t r, std::int64_t c, std::int64_t rows,
                    std::int64_t cols) {
    return {r, std::min(r + extent(block.rows, rows), rows), c,
            std::min(c + extent(block.cols, cols), cols)};
  }

  std::vector<float> elements(const Box& box) const {
    std::vector<float> result;
    for (std::int64_t r = box.row; r < box.rows; ++r) {
      for (std::int64_t c = box.col; c < box.cols; ++c) result.push_back(at_(r, c));
    }
    return result;
  }

  template <class Scaled>
  void cast(const Box& box, const Scaled& scaled) {
    for (std::int64_t r = box.row; r < box.rows; ++r) {
      for (std::int64_t c = box.col; c < box.cols; ++c) {
        const float x = at_(r, c);
        float y = x;
        if (std::isfinite(x)) {
          y = scaled(x);
          // encode() tells infinities apart; a product that overflows saturates.
          if (std::isinf(y)) y = std::copysign(1e30f, y);
        }
        wanted_.codes[static_cast<std::size_t>(r * wanted_.cols + c)] = table_.encode(y);
      }
    }
  }

  double cast_mx(const Box& box) {
    double a = 0;
    for (float x : elements(box)) {
      if (std::isfinite(x)) a = std::max(a, std::fabs(static_cast<double>(x)));
    }
    const int exponent = mx_exponent(a, problem_.mx_scale, problem_.format);
    cast(box, [exponent](float x) {
      return static_cast<float>(std::ldexp(static_cast<double>(x), -exponent));
    });
    return std::ldexp(1, exponent);
  }

  double fold(const Box& box) {
    const BlockShape mx = block_ == kBlock1x128 ? kBlock1x32 : kBlock32x32;
    std::vector<std::pair<Box, double>> parts;
    double largest = 0;
    for (std::int64_t r = box.row; r < box.rows; r += mx.rows) {
      for (std::int64_t c = box.col; c < box.cols; c += mx.cols) {
        const Box part = box_of(mx, r, c, box.rows, box.cols);
        parts.emplace_back(part, cast_mx(part));
        largest = std::max(largest, parts.back().second);
      }
    }
    for (const auto& [part, scale] : parts) {
      for (std::int64_t r = part.row; r < part.rows; ++r) {
        for (std::int64_t c = part.col; c < part.cols; ++c) {
          std::uint8_t& code = wanted_.codes[static_cast<std::size_t>(r * wanted_.cols + c)];
          const double value = table_.decode(code);
          if (std::isfinite(value)) {
            code = table_.encode(static_cast<float>(value * (scale / largest)));
          }
        }
      }
    }
    return largest;
  }

  QuantizeProblem problem_;
  BlockShape block_;
  Fp8Table table_;
  At at_;
  Wanted wanted_;
};

}  // namespace octet::oracle
