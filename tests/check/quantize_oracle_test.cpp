// The independent quantiser against single values and blocks of docs/numerics.md.
#include "check/data/random.hpp"
#include "check/judge/compare_outputs.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/quantize_oracle.hpp"

#include <octet/buffer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace octet {
namespace {

// Casts one 1x128 block whose first value is the format's limit, so that the scale is 1.
std::vector<std::uint8_t> cast(std::vector<float> values, Dtype format) {
  values.insert(values.begin(), format == Dtype::e4m3 ? 448.0f : 57344.0f);
  const auto count = static_cast<std::int64_t>(values.size());
  const OracleTensor result =
      quantize_oracle(make_view(values.data(), Dtype::f32, {1, count}), {format, kBlock1x128}, 1);
  EXPECT_EQ(result.scales.at(0), 1.0f);
  return {result.values.begin() + 1, result.values.end()};
}

TEST(QuantizeOracle, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(cast({1.0f, 1.0625f, 1.0626f, 1.1875f, -1.1875f}, Dtype::e4m3),
            (std::vector<std::uint8_t>{0x38, 0x38, 0x39, 0x3A, 0xBA}));
  EXPECT_EQ(cast({1.0f, 1.125f, 1.126f, 1.375f}, Dtype::e5m2),
            (std::vector<std::uint8_t>{0x3C, 0x3C, 0x3D, 0x3E}));
}

TEST(QuantizeOracle, KeepsSubnormalsAndSigns) {
  const float step = std::ldexp(1.0f, -9);
  EXPECT_EQ(cast({0.0f, -0.0f, step, step / 2, step * 0.51f, step * 1.5f, -step * 7}, Dtype::e4m3),
            (std::vector<std::uint8_t>{0x00, 0x80, 0x01, 0x00, 0x01, 0x02, 0x87}));
}

TEST(QuantizeOracle, KeepsNaNAndInfinitiesNotFinite) {
  EXPECT_EQ(cast({NAN, -NAN, INFINITY, -INFINITY}, Dtype::e4m3),
            (std::vector<std::uint8_t>{0x7F, 0x7F, 0x7F, 0x7F}));
  EXPECT_EQ(cast({NAN, -NAN, INFINITY, -INFINITY}, Dtype::e5m2),
            (std::vector<std::uint8_t>{0x7F, 0x7F, 0x7C, 0xFC}));
}

TEST(QuantizeOracle, EveryCodeOfAFormatIsItsOwnImage) {
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    for (int code = 0; code < 256; ++code) {
      const double value = decode_fp8(static_cast<std::uint8_t>(code), format);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(cast({static_cast<float>(value)}, format).at(0), code);
    }
  }
}

TEST(QuantizeOracle, GivesEveryBlockItsScale) {
  const auto scale_of = [](float amax, OracleRules rules) {
    const std::vector<float> block{amax / 2, -amax, NAN, INFINITY};
    return quantize_oracle(make_view(block.data(), Dtype::f32, {1, 4}), rules, 1).scales.at(0);
  };
  EXPECT_EQ(scale_of(3.0f, {Dtype::e4m3, kBlock1x128}), 3.0f / 448.0f);
  EXPECT_EQ(scale_of(3.0f, {Dtype::e5m2, kBlock1x128}), 3.0f / 57344.0f);
  EXPECT_EQ(scale_of(0.0f, {Dtype::e4m3, kBlock1x128}), 1.0f);
  EXPECT_EQ(scale_of(0.0f, {Dtype::e4m3, kBlock1x128, 1e-4f}), 1e-4f / 448.0f);
  EXPECT_EQ(scale_of(1e-40f, {Dtype::e4m3, kBlock1x128}), std::ldexp(1.0f, -126));
  EXPECT_EQ(scale_of(3.0f, {Dtype::e4m3, kBlock1x128, 0, true}), std::ldexp(1.0f, -7));
  EXPECT_EQ(scale_of(3.5f, {Dtype::e4m3, kBlock1x128, 0, true}), std::ldexp(1.0f, -7));
  EXPECT_EQ(scale_of(3.6f, {Dtype::e4m3, kBlock1x128, 0, true}), std::ldexp(1.0f, -6));
}

TEST(QuantizeOracle, RecoversValuesWithinTheStepOfTheFormat) {
  const Tensor x(Dtype::bf16, {130, 300});
  fill_random(x, Distribution::skewed, {1, 0}, 1);
  for (const BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128}) {
    const OracleTensor q = quantize_oracle(x, {Dtype::e4m3, block}, 2);
    for (std::int64_t r = 0; r < 130; ++r) {
      for (std::int64_t c = 0; c < 300; ++c) {
        const double scale = decode(q.view().scales, r / block.rows, c / block.cols);
        const double wanted = decode(x, r, c);
        const double bound = std::max(std::fabs(wanted) / 16, scale * std::ldexp(1, -10));
        ASSERT_NEAR(decode(q.view().values, r, c) * scale, wanted, bound * 1.000001);
      }
    }
  }
}

// The oracle's scale of element (r, c), whatever shares it.
double scale_at(const OracleTensor& q, std::int64_t r, std::int64_t c) {
  const BlockShape block = q.rules.block;
  const std::int64_t row = block.rows == kAll ? 0 : r / block.rows;
  const std::int64_t col = block.cols == kAll ? 0 : c / block.cols;
  if (!is_mx(block)) return decode(q.view().scales, row, col);
  const auto blocks = blocks_along(q.cols, block.cols);
  return std::ldexp(1, q.mx_scales[static_cast<std::size_t>(row * blocks + col)] - 127);
}

TEST(QuantizeOracle, SharesScalesOfRowsColumnsAndTensors) {
  const Tensor x(Dtype::bf16, {130, 300});
  fill_random(x, Distribution::skewed, {1, 0}, 1);
  const auto largest = [&](std::int64_t row, std::int64_t rows, std::int64_t col,
                           std::int64_t cols) {
    double result = 0;
    for (std::int64_t r = row; r < row + rows; ++r) {
      for (std::int64_t c = col; c < col + cols; ++c) {
        result = std::max(result, std::fabs(decode(x, r, c)));
      }
    }
    return static_cast<float>(result);
  };
  const OracleTensor rows = quantize_oracle(x, {Dtype::e4m3, kEachRow}, 2);
  const OracleTensor columns = quantize_oracle(x, {Dtype::e4m3, kEachColumn}, 2);
  const OracleTensor whole = quantize_oracle(x, {Dtype::e4m3, kWholeTensor}, 2);
  ASSERT_EQ(rows.scales.size(), 130u);
  ASSERT_EQ(columns.scales.size(), 300u);
  ASSERT_EQ(whole.scales.size(), 1u);
  for (const std::int64_t i : {0, 57, 129}) {
    EXPECT_EQ(rows.scales[static_cast<std::size_t>(i)], largest(i, 1, 0, 300) / 448.0f);
    EXPECT_EQ(columns.scales[static_cast<std::size_t>(i)], largest(0, 130, i, 1) / 448.0f);
  }
  EXPECT_EQ(whole.scales[0], largest(0, 130, 0, 300) / 448.0f);
  for (const OracleTensor* q : {&rows, &columns, &whole}) {
    for (std::int64_t r = 0; r < 130; ++r) {
      for (std::int64_t c = 0; c < 300; ++c) {
        const double scale = scale_at(*q, r, c);
        const double wanted = decode(x, r, c);
        const double bound = std::max(std::fabs(wanted) / 16, scale * std::ldexp(1, -10));
        ASSERT_NEAR(decode(q->view().values, r, c) * scale, wanted, bound * 1.000001);
      }
    }
  }
}

// A part of a tensor has the scale of the whole.
TEST(QuantizeOracle, TakesTheLargestMagnitudeOfATensorItSeesAPartOf) {
  const Tensor x(Dtype::f32, {256, 256});
  fill_random(x, Distribution::normal, {1, 0}, 1);
  const OracleTensor whole = quantize_oracle(x, {Dtype::e4m3, kWholeTensor}, 1);
  OracleRules rules{Dtype::e4m3, kWholeTensor};
  rules.amax = whole.scales[0] * 448.0f;
  const OracleTensor part = quantize_oracle(
      make_matrix(static_cast<float*>(x.data()) + 128 * 256 + 128, Dtype::f32, 100, 90, 256), rules,
      1);
  EXPECT_EQ(part.scales, whole.scales);
  for (std::size_t r = 0; r < 100; ++r) {
    for (std::size_t c = 0; c < 90; ++c) {
      ASSERT_EQ(part.values[r * 90 + c], whole.values[(r + 128) * 256 + c + 128]);
    }
  }
}

TEST(QuantizeOracle, GivesMxBlocksTheirExponents) {
  const auto exponent_of = [](float amax, Dtype format, MxScale scale) {
    const std::vector<float> block{amax / 2, -amax, NAN};
    OracleRules rules{format, kBlock1x32};
    rules.mx_scale = scale;
    return quantize_oracle(make_view(block.data(), Dtype::f32, {1, 3}), rules, 1).mx_scales.at(0) -
           127;
  };
  EXPECT_EQ(exponent_of(0, Dtype::e4m3, MxScale::floor), -127);
  EXPECT_EQ(exponent_of(3, Dtype::e4m3, MxScale::floor), 1 - 8);
  EXPECT_EQ(exponent_of(3.99f, Dtype::e4m3, MxScale::floor), 1 - 8);
  EXPECT_EQ(exponent_of(3.99f, Dtype::e5m2, MxScale::floor), 1 - 15);
  EXPECT_EQ(exponent_of(3.87f, Dtype::e4m3, MxScale::even), 1 - 8);
  EXPECT_EQ(exponent_of(3.875f, Dtype::e4m3, MxScale::even), 2 - 8);  // a tie, away from zero
  EXPECT_EQ(exponent_of(3.5f, Dtype::e5m2, MxScale::even), 1 - 15);
  EXPECT_EQ(exponent_of(3.75f, Dtype::e5m2, MxScale::even), 2 - 15);
  EXPECT_EQ(exponent_of(3.5f, Dtype::e4m3, MxScale::up), 1 - 8);  // 448 is the limit
  EXPECT_EQ(exponent_of(3.51f, Dtype::e4m3, MxScale::up), 2 - 8);
  EXPECT_EQ(exponent_of(1e-40f, Dtype::e4m3, MxScale::floor), -127);
  EXPECT_EQ(exponent_of(3e38f, Dtype::e4m3, MxScale::floor), 127 - 8);
}

// Every value of a fold is that of the mx block, rounded to the step of the larger scale.
TEST(QuantizeOracle, FoldsMxBlocksToTheLargestScale) {
  const Tensor x(Dtype::bf16, {130, 300});
  fill_random(x, Distribution::outliers, {1, 0}, 1);
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
      OracleRules rules{format, block};
      rules.fold_mx = true;
      const OracleTensor folded = quantize_oracle(x, rules, 2);
      const OracleTensor mx =
          quantize_oracle(x, {format, block == kBlock1x128 ? kBlock1x32 : kBlock32x32}, 2);
      const double step = std::ldexp(1, format == Dtype::e4m3 ? -9 : -16);  // of subnormals
      std::int64_t exact = 0;
      for (std::int64_t r = 0; r < 130; ++r) {
        for (std::int64_t c = 0; c < 300; ++c) {
          const double wanted = decode(mx.view().values, r, c) * scale_at(mx, r, c);
          const double scale = scale_at(folded, r, c);
          const double given = decode(folded.view().values, r, c) * scale;
          ASSERT_GE(scale, scale_at(mx, r, c));
          ASSERT_LE(std::fabs(given - wanted), scale * step / 2) << r << ", " << c;
          exact += given == wanted;
        }
      }
      EXPECT_GT(exact, 130 * 300 * 9 / 10);
      // e5m2 has room below for outliers of 100, e4m3 has not.
      EXPECT_EQ(exact == 130 * 300, format == Dtype::e5m2);
    }
  }
}

TEST(QuantizeOracle, CountsEveryDifference) {
  const Tensor x(Dtype::f32, {130, 300});
  fill_random(x, Distribution::normal, {1, 0}, 1);
  const OracleTensor wanted = quantize_oracle(x, {Dtype::e4m3, kBlock1x128}, 1);
  OracleTensor given = wanted;
  EXPECT_EQ(count_differences(given.view(), wanted.view()), 0);
  given.values[12345] ^= 0x80;
  given.scales[7] = std::nextafter(given.scales[7], 0.0f);
  EXPECT_EQ(count_differences(given.view(), wanted.view()), 2);
  EXPECT_EQ(count_differences(transposed(given.view()), transposed(wanted.view())), 2);
}

}  // namespace
}  // namespace octet
