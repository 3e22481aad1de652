#include "check/quantize_oracle.hpp"

#include "check/clones.hpp"
#include "check/decode.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace octet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The format's largest value, and for each of its codes the smallest f32 that rounds past it.
struct Rounding {
  int limit_code = 0;
  double limit = 0;
  std::array<float, 128> thresholds{};
};

Rounding make_rounding(Dtype format) {
  const double* values = fp8_values(format);
  Rounding rounding;
  while (std::isfinite(values[rounding.limit_code + 1])) ++rounding.limit_code;
  rounding.limit = values[rounding.limit_code];
  rounding.thresholds.fill(kInfinity);
  for (int code = 0; code < rounding.limit_code; ++code) {
    const auto middle = static_cast<float>((values[code] + values[code + 1]) / 2);
    // A tie goes to the even code: it stays where `code` is even.
    rounding.thresholds[code] = code % 2 == 0 ? std::nextafter(middle, kInfinity) : middle;
  }
  return rounding;
}

const Rounding& rounding_of(Dtype format) {
  static const Rounding e4m3 = make_rounding(Dtype::e4m3);
  static const Rounding e5m2 = make_rounding(Dtype::e5m2);
  return format == Dtype::e4m3 ? e4m3 : e5m2;
}

// How many of 127 ascending thresholds each magnitude has reached, by bisection.
OCTET_CPU_CLONES void count_thresholds(const float* magnitudes, int count, const float* thresholds,
                                       std::int32_t* codes) {
  for (int i = 0; i < count; ++i) {
    std::int32_t code = 0;
    for (int step = 64; step > 0; step /= 2) {
      code += thresholds[code + step - 1] <= magnitudes[i] ? step : 0;
    }
    codes[i] = code;
  }
}

struct Scales {
  float forward;
  float inverse;
};

Scales scales_of_block(float amax, const OracleRules& rules) {
  const auto limit = static_cast<float>(rounding_of(rules.format).limit);
  float a = std::max(amax, rules.amax_floor);
  if (a == 0) return {1, 1};
  a = std::max(a, std::ldexp(limit, -126));
  if (!rules.pow2_scales) return {limit / a, a / limit};
  int exponent = 0;
  const float fraction = std::frexp(a / limit, &exponent);  // in [1/2, 1)
  const float inverse = std::ldexp(1.0f, fraction == 0.5f ? exponent - 1 : exponent);
  return {1 / inverse, inverse};
}

std::uint8_t code_of_special(float x, Dtype format) {
  if (std::isnan(x) || format == Dtype::e4m3) return 0x7F;
  return x > 0 ? 0x7C : 0xFC;
}

// Part of a row of at most 128 elements.
struct Segment {
  float x[kBlock];
  int count = 0;

  void read(const TensorView& input, std::int64_t row, std::int64_t first, std::int64_t end) {
    double decoded[kBlock];
    count = static_cast<int>(end - first);
    decode_panel(input, &row, 1, 1, first, count, decoded);
    for (int i = 0; i < count; ++i) x[i] = static_cast<float>(decoded[i]);
  }
  float largest_finite() const {
    float amax = 0;
    for (int i = 0; i < count; ++i) {
      if (std::isfinite(x[i])) amax = std::max(amax, std::fabs(x[i]));
    }
    return amax;
  }
  void cast(float scale, Dtype format, std::uint8_t* out) const {
    const Rounding& rounding = rounding_of(format);
    float magnitudes[kBlock];
    std::int32_t codes[kBlock];
    for (int i = 0; i < count; ++i) magnitudes[i] = std::fabs(x[i] * scale);
    count_thresholds(magnitudes, count, rounding.thresholds.data(), codes);
    for (int i = 0; i < count; ++i) {
      const int code = std::min<int>(codes[i], rounding.limit_code);
      out[i] = std::isfinite(x[i])
                   ? static_cast<std::uint8_t>(code | (std::signbit(x[i]) ? 0x80 : 0))
                   : code_of_special(x[i], format);
    }
  }
};

void quantize_block(const TensorView& input, OracleTensor& out, std::int64_t block_row,
                    std::int64_t block_col, std::int64_t block_cols) {
  const BlockShape block = out.rules.block;
  const std::int64_t row_end = std::min((block_row + 1) * block.rows, out.rows);
  const std::int64_t first = block_col * block.cols;
  const std::int64_t end = std::min(first + block.cols, out.cols);
  Segment segment;
  float amax = 0;
  for (std::int64_t row = block_row * block.rows; row < row_end; ++row) {
    segment.read(input, row, first, end);
    amax = std::max(amax, segment.largest_finite());
  }
  const Scales scales = scales_of_block(amax, out.rules);
  out.scales[static_cast<std::size_t>(block_row * block_cols + block_col)] = scales.inverse;
  for (std::int64_t row = block_row * block.rows; row < row_end; ++row) {
    if (block.rows > 1) segment.read(input, row, first, end);
    segment.cast(scales.forward, out.rules.format, out.values.data() + row * out.cols + first);
  }
}

// Calls visit(offset in x, offset in y) for every element of two matrices of one shape.
template <class Visit>
void visit_both(const TensorView& x, const TensorView& y, const Visit& visit) {
  const bool down = x.strides[0] < x.strides[1];  // along whichever lies closer in memory
  const int inner = down ? 0 : 1;
  for (std::int64_t i = 0; i < x.shape[1 - inner]; ++i) {
    for (std::int64_t j = 0; j < x.shape[inner]; ++j) {
      visit(i * x.strides[1 - inner] + j * x.strides[inner],
            i * y.strides[1 - inner] + j * y.strides[inner]);
    }
  }
}

}  // namespace

QuantizedView OracleTensor::view() const {
  const std::int64_t block_cols = (cols + rules.block.cols - 1) / rules.block.cols;
  const std::int64_t block_rows = (rows + rules.block.rows - 1) / rules.block.rows;
  return {make_view(values.data(), rules.format, {rows, cols}),
          make_view(scales.data(), Dtype::f32, {block_rows, block_cols}), rules.block};
}

OracleTensor quantize_oracle(const TensorView& input, const OracleRules& rules, int threads) {
  OracleTensor out{input.rows(), input.cols(), rules, {}, {}};
  const std::int64_t block_rows = (out.rows + rules.block.rows - 1) / rules.block.rows;
  const std::int64_t block_cols = (out.cols + rules.block.cols - 1) / rules.block.cols;
  out.values.resize(static_cast<std::size_t>(out.rows * out.cols));
  out.scales.resize(static_cast<std::size_t>(block_rows * block_cols));
  parallel_for(threads != 0 ? threads : default_threads(), block_rows, [&](std::int64_t row) {
    for (std::int64_t col = 0; col < block_cols; ++col) {
      quantize_block(input, out, row, col, block_cols);
    }
  });
  return out;
}

void copy_quantized(const QuantizedView& from, const QuantizedView& to) {
  visit_both(from.values, to.values, [&](std::int64_t i, std::int64_t j) {
    static_cast<std::uint8_t*>(to.values.data)[j] =
        static_cast<const std::uint8_t*>(from.values.data)[i];
  });
  visit_both(from.scales, to.scales, [&](std::int64_t i, std::int64_t j) {
    static_cast<float*>(to.scales.data)[j] = static_cast<const float*>(from.scales.data)[i];
  });
}

std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted) {
  std::int64_t differences = 0;
  const auto* given_values = static_cast<const std::uint8_t*>(given.values.data);
  const auto* wanted_values = static_cast<const std::uint8_t*>(wanted.values.data);
  visit_both(given.values, wanted.values, [&](std::int64_t i, std::int64_t j) {
    differences += given_values[i] != wanted_values[j];
  });
  const auto* given_scales = static_cast<const float*>(given.scales.data);
  const auto* wanted_scales = static_cast<const float*>(wanted.scales.data);
  visit_both(given.scales, wanted.scales, [&](std::int64_t i, std::int64_t j) {
    differences += std::memcmp(given_scales + i, wanted_scales + j, sizeof(float)) != 0;
  });
  return differences;
}

}  // namespace octet
