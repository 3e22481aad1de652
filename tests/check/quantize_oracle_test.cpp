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
