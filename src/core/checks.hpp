// Checks of a problem and of each argument by itself, shared by all operators (core/call.hpp checks
// the arguments of a call against each other). Each function throws an Error that names operator,
// argument, what was given and what was wanted.
#pragma once

#include <octet/quantized.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace octet {

// Names an argument in messages: {"gemm", "a"}.
struct Argument {
  std::string_view op;
  std::string_view name;
};

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t step) {
  return value / step + (value % step != 0);
}
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return ceil_div(value, step) * step;
}

// `name` >= 0: an empty problem is allowed.
void check_count(std::string_view op, std::string_view name, std::int64_t count);
// `name` >= 1.
void check_extent(std::string_view op, std::string_view name, std::int64_t extent);
// rows * cols elements of a dtype stay within 2^60 bytes.
void check_size(std::string_view op, std::int64_t rows, std::int64_t cols, Dtype dtype);
// The device is on this machine.
void check_device(std::string_view op, Device device);
// One of f32, f16, bf16.
void check_float(Argument argument, Dtype dtype);
void check_fp8(Argument argument, Dtype dtype);
// The largest power of ten whose square, summed over a slice of 128 products, is finite in f32.
// Beyond about 8e21 the product of two scales is infinite, and zeros become NaN.
inline constexpr float kMaxAmaxFloor = 1e18f;
void check_amax_floor(std::string_view op, float amax_floor);
// Finite, >= 0.
void check_eps(std::string_view op, float eps);
// 1x128, 128x1 or 128x128: the blocks that are quantised and dequantised.
void check_block(std::string_view op, std::string_view name, BlockShape block);

// The form required of a view. `spelling` says in messages where the shape comes from: "[M, N]".
//
// A matrix whose columns are contiguous and whose rows do not overlap.
struct MatrixForm {
  Dtype dtype;
  std::int64_t rows;
  std::int64_t cols;
  std::string_view spelling;
};
// A tensor of any rank whose last dimension is contiguous and whose elements do not overlap; the
// memory of an empty one is not checked.
struct TensorForm {
  Dtype dtype;
  std::int32_t rank;
  std::array<std::int64_t, kMaxRank> shape{};
  std::string_view spelling;

  TensorForm(Dtype dtype_, std::initializer_list<std::int64_t> shape_, std::string_view spelling_)
      : dtype(dtype_), rank(static_cast<std::int32_t>(shape_.size())), spelling(spelling_) {
    std::copy(shape_.begin(), shape_.end(), shape.begin());
  }
};

enum class Pitch { any, aligned16 };  // aligned16: rows start on 16-byte boundaries

// FP8 values and the f32 scales of their blocks.
struct QuantizedForm {
  Dtype dtype;
  std::int64_t rows;
  std::int64_t cols;
  BlockShape block;
  std::string_view spelling;
  Pitch pitch = Pitch::aligned16;
};
// A batch of them: values [batch, rows, cols] whose rows and matrices start on 16-byte boundaries.
struct QuantizedBatchForm {
  Dtype dtype;
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t cols;
  BlockShape block;
  std::string_view spelling;
};

// Checks that the view has this form, is on `device`, is not null and is aligned to its element.
void check_view(Argument argument, const TensorView& view, const MatrixForm& form, Device device);
void check_view(Argument argument, const TensorView& view, const TensorForm& form, Device device);
void check_view(Argument argument, const QuantizedView& view, const QuantizedForm& form,
                Device device);
void check_view(Argument argument, const QuantizedView& view, const QuantizedBatchForm& form,
                Device device);
// A matrix with any non-negative strides.
void check_strided_matrix(Argument argument, const TensorView& view, const MatrixForm& form,
                          Device device);

}  // namespace octet
