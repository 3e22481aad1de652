#include "check/reference/quantize_oracle.hpp"

#include "check/reference/decode.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kLowerBits = 20;                      // of the 31 bits of a magnitude
constexpr int kUpperBits = 1 << (31 - kLowerBits);  // values of the others: exponent, 3 of mantissa

// The format's largest value, and for each of its codes the smallest f32 that rounds past it.
struct Rounding {
  int limit_code = 0;
  double limit = 0;
  std::array<float, 128> thresholds{};  // ascending, infinite from limit_code on
  // How many thresholds the smallest f32 with these upper bits has reached. Numbers that share
  // their upper bits reach at most one more.
  std::array<std::int32_t, kUpperBits> reached{};
};

Rounding make_rounding(Dtype format) {
  const double* values = fp8_values(format);
  Rounding rounding;
  while (std::isfinite(values[rounding.limit_code + 1])) ++rounding.limit_code;
  rounding.limit = values[rounding.limit_code];
  rounding.thresholds.fill(kInfinity);
  for (int code = 0; code < rounding.limit_code; ++code) {
    const auto middle = static_cast<float>((values[code] + values[code + 1]) / 2);
    // A tie rounds to the even code, so it stays if `code` is even.
    rounding.thresholds[code] = code % 2 == 0 ? std::nextafter(middle, kInfinity) : middle;
  }
  for (int upper = 0; upper < kUpperBits; ++upper) {
    const auto smallest = std::bit_cast<float>(static_cast<std::uint32_t>(upper) << kLowerBits);
    const auto end = rounding.thresholds.begin() + rounding.limit_code;
    rounding.reached[static_cast<std::size_t>(upper)] = static_cast<std::int32_t>(
        std::upper_bound(rounding.thresholds.begin(), end, smallest) - rounding.thresholds.begin());
  }
  return rounding;
}

const Rounding& rounding_of(Dtype format) {
  static const Rounding e4m3 = make_rounding(Dtype::e4m3);
  static const Rounding e5m2 = make_rounding(Dtype::e5m2);
  return format == Dtype::e4m3 ? e4m3 : e5m2;
}

// Codes of finite values: their signs, and how many thresholds their scaled magnitudes have
// reached.
OCTET_CPU_CLONES void cast_finite(const float* x, int count, float scale, const Rounding& rounding,
                                  std::int32_t* codes) {
  const float* thresholds = rounding.thresholds.data();
  const std::int32_t* reached = rounding.reached.data();
  const std::int32_t limit_code = rounding.limit_code;
  for (int i = 0; i < count; ++i) {
    const float magnitude = std::fabs(x[i] * scale);
    std::int32_t code = reached[std::bit_cast<std::uint32_t>(magnitude) >> kLowerBits];
    code += thresholds[code] <= magnitude ? 1 : 0;
    code = code < limit_code ? code : limit_code;
    codes[i] = code | static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(x[i]) >> 24) & 0x80);
  }
}

// Without the sign, the bits of finite f32 are ordered by magnitude; infinities and NaNs lie above.
constexpr std::int32_t kInfinityBits = 0x7F800000;

struct LargestBits {
  std::int32_t finite = 0;
  std::int32_t any = 0;
};

OCTET_CPU_CLONES LargestBits largest_bits(const float* x, int count) {
  std::int32_t finite = 0;
  std::int32_t any = 0;
  for (int i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu);
    const std::int32_t finite_bits = bits < kInfinityBits ? bits : 0;
    finite = finite > finite_bits ? finite : finite_bits;
    any = any > bits ? any : bits;
  }
  return {finite, any};
}

struct Scales {
  float forward;
  float inverse;
};

Scales scales_of_block(float amax, const OracleRules& rules) {
  if (rules.given_scale != 0) return {1 / rules.given_scale, rules.given_scale};
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

// The exponent of an mx block: a / 2^exponent is below twice the largest power of two of the format.
int mx_exponent(double a, const OracleRules& rules) {
  if (a == 0) return -127;
  const double limit = rounding_of(rules.format).limit;
  const int limit_exponent = std::ilogb(limit);
  int exponent = std::ilogb(a) - limit_exponent;
  if (rules.mx_scale == MxScale::even) {
    // Rounded to the mantissa bits of the format, a may reach the next power of two.
    const double step = std::ldexp(1, std::ilogb(a) - (rules.format == Dtype::e4m3 ? 3 : 2));
    exponent = std::ilogb(std::round(a / step) * step) - limit_exponent;
  } else if (rules.mx_scale == MxScale::up) {
    while (std::ldexp(a, -exponent) > limit) ++exponent;
  }
  return std::clamp(exponent, -127, 127);
}

std::uint8_t code_of_special(float x, Dtype format) {
  if (std::isnan(x) || format == Dtype::e4m3) return 0x7F;
  return x > 0 ? 0x7C : 0xFC;
}

// The elements of one block, at most 128x128.
struct Block {
  std::int64_t row = 0;
  std::int64_t col = 0;
  int rows = 0;
  int cols = 0;
  std::vector<float> x = std::vector<float>(kBlock * kBlock);  // [rows][cols]

  void read(const TensorView& input) {
    double decoded[kBlock];
    for (int r = 0; r < rows; ++r) {
      const std::int64_t input_row = row + r;
      decode_panel(input, &input_row, 1, 1, col, cols, decoded);
      for (int c = 0; c < cols; ++c)
        x[static_cast<std::size_t>(r) * cols + c] = static_cast<float>(decoded[c]);
    }
  }
  void cast(float scale, Dtype format, bool all_finite, OracleTensor& out) const {
    const Rounding& rounding = rounding_of(format);
    std::int32_t codes[kBlock];
    for (int r = 0; r < rows; ++r) {
      const float* from = x.data() + static_cast<std::ptrdiff_t>(r) * cols;
      std::uint8_t* to = out.values.data() + (row + r) * out.cols + col;
      cast_finite(from, cols, scale, rounding, codes);
      for (int c = 0; c < cols; ++c) to[c] = static_cast<std::uint8_t>(codes[c]);
      for (int c = 0; !all_finite && c < cols; ++c) {
        if (!std::isfinite(from[c])) to[c] = code_of_special(from[c], format);
      }
    }
  }
};

// The part of the input that begins at (row, col) and has at most `shape`.
LargestBits read_block(const TensorView& input, BlockShape shape, Block& block) {
  block.rows = static_cast<int>(std::min(shape.rows, input.rows() - block.row));
  block.cols = static_cast<int>(std::min(shape.cols, input.cols() - block.col));
  block.read(input);
  return largest_bits(block.x.data(), block.rows * block.cols);
}

// Casts the block with the scale of an mx block and returns its exponent.
int cast_mx_block(const TensorView& input, BlockShape shape, OracleTensor& out, Block& block) {
  const LargestBits largest = read_block(input, shape, block);
  const int exponent = mx_exponent(std::bit_cast<float>(largest.finite), out.rules);
  block.cast(std::ldexp(1.0f, -exponent), out.rules.format, largest.any < kInfinityBits, out);
  return exponent;
}

// Rounds the codes of a block of the output to those of its values times 2^exponent.
void shift_codes(const Block& block, int exponent, OracleTensor& out) {
  const double* values = fp8_values(out.rules.format);
  const Rounding& rounding = rounding_of(out.rules.format);
  for (int r = 0; r < block.rows; ++r) {
    std::uint8_t* codes = out.values.data() + (block.row + r) * out.cols + block.col;
    for (int c = 0; c < block.cols; ++c) {
      if (!std::isfinite(values[codes[c]])) continue;
      const auto value = static_cast<float>(std::ldexp(values[codes[c]], exponent));
      std::int32_t code = 0;
      cast_finite(&value, 1, 1, rounding, &code);
      codes[c] = static_cast<std::uint8_t>(code);
    }
  }
}

// A block of 128 whose elements were cast as mx blocks, which are folded to the largest scale.
float fold_block(const TensorView& input, OracleTensor& out, const Block& whole) {
  const BlockShape mx = out.rules.block == kBlock1x128 ? kBlock1x32 : kBlock32x32;
  const std::int64_t end_row = std::min(whole.row + out.rules.block.rows, out.rows);
  const std::int64_t end_col = std::min(whole.col + kBlock, out.cols);
  Block part;
  const auto for_each_part = [&](const auto& use) {
    for (part.row = whole.row; part.row < end_row; part.row += mx.rows) {
      for (part.col = whole.col; part.col < end_col; part.col += mx.cols) use();
    }
  };
  std::vector<int> exponents;
  for_each_part([&] { exponents.push_back(cast_mx_block(input, mx, out, part)); });
  const int largest = *std::max_element(exponents.begin(), exponents.end());
  std::size_t next = 0;
  for_each_part([&] {
    part.rows = static_cast<int>(std::min(mx.rows, out.rows - part.row));
    part.cols = static_cast<int>(std::min(mx.cols, out.cols - part.col));
    const int shift = exponents[next++] - largest;
    if (shift != 0) shift_codes(part, shift, out);
  });
  return std::ldexp(1.0f, largest);
}

void quantize_block(const TensorView& input, OracleTensor& out, Block& block) {
  const OracleRules& rules = out.rules;
  const std::int64_t block_cols = blocks_along(out.cols, rules.block.cols);
  const auto at = static_cast<std::size_t>(block.row / rules.block.rows * block_cols +
                                           block.col / rules.block.cols);
  if (rules.fold_mx) {
    out.scales[at] = fold_block(input, out, block);
    return;
  }
  if (is_mx(rules.block)) {
    const int exponent = cast_mx_block(input, rules.block, out, block);
    out.mx_scales[at] = static_cast<std::uint8_t>(exponent + 127);
    return;
  }
  const LargestBits largest = read_block(input, rules.block, block);
  const Scales scales = scales_of_block(std::bit_cast<float>(largest.finite), rules);
  out.scales[at] = scales.inverse;
  block.cast(scales.forward, rules.format, largest.any < kInfinityBits, out);
}

// Calls use(block, bits) for every 1x128 part of rows [first, end), read into `block`.
template <class Use>
void for_each_run(const TensorView& input, std::int64_t first, std::int64_t end, const Use& use) {
  Block block;
  for (block.row = first; block.row < end; ++block.row) {
    for (block.col = 0; block.col < input.cols(); block.col += kBlock) {
      use(block, read_block(input, kBlock1x128, block));
    }
  }
}

// A scale for every row, or one for all rows.
void quantize_rows(const TensorView& input, OracleTensor& out, int threads) {
  const std::int64_t tasks = (out.rows + kBlock - 1) / kBlock;
  const auto in_tasks = [&](const auto& use) {
    parallel_for(threads, tasks, [&](std::int64_t task) {
      for_each_run(input, task * kBlock, std::min((task + 1) * kBlock, out.rows), use);
    });
  };
  std::vector<std::int32_t> largest(static_cast<std::size_t>(out.rows));
  in_tasks([&](const Block& run, LargestBits bits) {
    std::int32_t& row = largest[static_cast<std::size_t>(run.row)];
    row = std::max(row, bits.finite);
  });
  const bool one = out.rules.block == kWholeTensor;
  if (one) {
    const float amax = out.rules.amax.value_or(
        std::bit_cast<float>(*std::max_element(largest.begin(), largest.end())));
    std::fill(largest.begin(), largest.end(), std::bit_cast<std::int32_t>(amax));
  }
  const auto scales_of_row = [&](std::int64_t row) {
    return scales_of_block(std::bit_cast<float>(largest[static_cast<std::size_t>(row)]), out.rules);
  };
  for (std::size_t i = 0; i < out.scales.size(); ++i) {
    out.scales[i] = scales_of_row(static_cast<std::int64_t>(i)).inverse;
  }
  in_tasks([&](const Block& run, LargestBits bits) {
    run.cast(scales_of_row(run.row).forward, out.rules.format, bits.any < kInfinityBits, out);
  });
}

// A scale for every column: the rows of the transposed input.
OracleTensor quantize_columns(const TensorView& input, const OracleRules& rules, int threads) {
  OracleRules of_rows = rules;
  of_rows.block = kEachRow;
  const OracleTensor rows = quantize_oracle(transposed(input), of_rows, threads);
  OracleTensor out{input.rows(), input.cols(), rules, rows.values, rows.scales, {}};
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; ++c) {
      out.values[static_cast<std::size_t>(r * out.cols + c)] =
          rows.values[static_cast<std::size_t>(c * out.rows + r)];
    }
  }
  return out;
}

}  // namespace

QuantizedView OracleTensor::view() const {
  const std::int64_t block_rows = blocks_along(rows, rules.block.rows);
  const std::int64_t block_cols = blocks_along(cols, rules.block.cols);
  const bool mx = is_mx(rules.block);
  const void* data = mx ? static_cast<const void*>(mx_scales.data()) : scales.data();
  return {make_view(values.data(), rules.format, {rows, cols}),
          make_view(data, scale_dtype(rules.block), {block_rows, block_cols}), rules.block};
}

OracleTensor quantize_oracle(const TensorView& input, const OracleRules& rules, int threads) {
  if (threads == 0) threads = default_threads();
  if (rules.block == kEachColumn) return quantize_columns(input, rules, threads);
  OracleTensor out{input.rows(), input.cols(), rules, {}, {}, {}};
  out.values.resize(static_cast<std::size_t>(out.rows * out.cols));
  const auto blocks = static_cast<std::size_t>(blocks_along(out.rows, rules.block.rows) *
                                               blocks_along(out.cols, rules.block.cols));
  (is_mx(rules.block) ? out.mx_scales.resize(blocks) : out.scales.resize(blocks));
  if (is_whole_row(rules.block)) {
    quantize_rows(input, out, threads);
    return out;
  }
  // A task has 128 rows for every block shape, so that 1x128 blocks do not get a task per row.
  parallel_for(threads, (out.rows + kBlock - 1) / kBlock, [&](std::int64_t task) {
    Block block;
    const std::int64_t end = std::min((task + 1) * kBlock, out.rows);
    for (block.row = task * kBlock; block.row < end; block.row += rules.block.rows) {
      for (block.col = 0; block.col < out.cols; block.col += rules.block.cols) {
        quantize_block(input, out, block);
      }
    }
  });
  return out;
}

}  // namespace octet
