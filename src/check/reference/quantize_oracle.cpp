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

void quantize_block(const TensorView& input, OracleTensor& out, Block& block) {
  const OracleRules& rules = out.rules;
  block.rows = static_cast<int>(std::min(rules.block.rows, out.rows - block.row));
  block.cols = static_cast<int>(std::min(rules.block.cols, out.cols - block.col));
  block.read(input);
  const LargestBits largest = largest_bits(block.x.data(), block.rows * block.cols);
  const Scales scales = scales_of_block(std::bit_cast<float>(largest.finite), rules);
  const std::int64_t block_cols = (out.cols + rules.block.cols - 1) / rules.block.cols;
  const std::int64_t at = block.row / rules.block.rows * block_cols + block.col / rules.block.cols;
  out.scales[static_cast<std::size_t>(at)] = scales.inverse;
  block.cast(scales.forward, rules.format, largest.any < kInfinityBits, out);
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
  // A task has 128 rows for every block shape, so that 1x128 blocks do not get a task per row.
  parallel_for(threads != 0 ? threads : default_threads(), (out.rows + kBlock - 1) / kBlock,
               [&](std::int64_t task) {
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
