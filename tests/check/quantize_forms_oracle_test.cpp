// The oracle of quantize in whole lines and mx blocks, on numbers worked out by hand.
#include "check/reference/quantize_oracle.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

OracleTensor cast(const std::vector<float>& x, std::int64_t rows, const OracleRules& rules) {
  const auto cols = static_cast<std::int64_t>(x.size()) / rows;
  return quantize_oracle(make_view(const_cast<float*>(x.data()), Dtype::f32, {rows, cols}), rules,
                         1);
}

TEST(QuantizeOracle, FindsScalesOfWholeLines) {
  const std::vector<float> x{1, -448, 2, 224, 0, 7};  // [2, 3]
  const auto scales = [&](BlockShape block) {
    OracleRules rules;
    rules.block = block;
    return cast(x, 2, rules).scales;
  };
  EXPECT_EQ(scales(kEachRow), (std::vector<float>{1, 0.5f}));
  EXPECT_EQ(scales(kEachColumn), (std::vector<float>{0.5f, 1, 7.0f / 448}));
  EXPECT_EQ(scales(kWholeTensor), (std::vector<float>{1}));
}

TEST(QuantizeOracle, FindsExponentsOfMxBlocks) {
  const auto byte = [](float amax, Dtype format, MxScale scale) {
    OracleRules rules;
    rules.format = format;
    rules.block = kBlock1x32;
    rules.mx_scale = scale;
    return int{cast({amax, 0}, 1, rules).mx_scales.at(0)};
  };
  EXPECT_EQ(byte(0, Dtype::e4m3, MxScale::floor), 0);
  EXPECT_EQ(byte(511, Dtype::e4m3, MxScale::floor), 127);
  EXPECT_EQ(byte(495, Dtype::e4m3, MxScale::even), 127);
  EXPECT_EQ(byte(496, Dtype::e4m3, MxScale::even), 128);
  EXPECT_EQ(byte(448, Dtype::e4m3, MxScale::up), 127);
  EXPECT_EQ(byte(449, Dtype::e4m3, MxScale::up), 128);
  EXPECT_EQ(byte(61440, Dtype::e5m2, MxScale::even), 128);
  EXPECT_EQ(byte(57344, Dtype::e5m2, MxScale::up), 127);
  EXPECT_EQ(byte(0x1p-140f, Dtype::e4m3, MxScale::up), 0);
}

// 28 has a scale of 2^-4 in its own block, 448 one of 1; folded, 28 keeps its value.
TEST(QuantizeOracle, FoldsMxBlocks) {
  std::vector<float> x(128);
  x[0] = 448;
  x[40] = 28;
  x[41] = 0x1p-13f;
  OracleRules rules;
  rules.fold_mx = true;
  const OracleTensor folded = cast(x, 1, rules);
  EXPECT_EQ(folded.scales, (std::vector<float>{1}));
  EXPECT_EQ(folded.values[0], 0x7E);
  EXPECT_EQ(folded.values[40], 0x5E);
  EXPECT_EQ(folded.values[41], 0x00);
}

TEST(QuantizeOracle, TakesAGivenScale) {
  OracleRules rules;
  rules.given_scale = 0.5f;
  const OracleTensor cast_values = cast({1, 300, -0.25f}, 1, rules);
  EXPECT_EQ(cast_values.values, (std::vector<std::uint8_t>{0x40, 0x7E, 0xB0}));
}

}  // namespace
}  // namespace octet
