// Conversions against oracles built from the definition of each format: a table of every value,
// made with ldexp in f64. The nearest entry is found by comparing f64 distances, which are exact.
#include "core/numeric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace octet {
namespace {

// A 16-bit IEEE format. Entry `infinity` of the table is the power of two that the next code would
// have; values that round to it become infinity.
struct Oracle {
  int mantissa_bits;
  int exponent_bias;
  std::uint16_t infinity;
  std::vector<double> values;

  Oracle(int mantissa, int bias)
      : mantissa_bits(mantissa),
        exponent_bias(bias),
        infinity(static_cast<std::uint16_t>((2 * bias + 1) << mantissa)) {
    for (int code = 0; code <= infinity; ++code) values.push_back(value_of(code));
  }

  double value_of(int code) const {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - exponent_bias - mantissa_bits);
    return std::ldexp((1 << mantissa_bits) + mantissa, exponent - exponent_bias - mantissa_bits);
  }

  std::uint16_t nearest(float value) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= values.back()) return sign | infinity;
    const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
    const auto code = static_cast<int>(above - values.begin()) - 1;
    const double down = magnitude - values[code];
    const double up = *above - magnitude;
    const bool round_up = up < down || (up == down && code % 2 == 1);
    return static_cast<std::uint16_t>(sign | (code + round_up));
  }
};

const Oracle& f16_oracle() {
  static const Oracle oracle(10, 15);
  return oracle;
}
const Oracle& bf16_oracle() {
  static const Oracle oracle(7, 127);
  return oracle;
}

struct Conversion {
  const char* name;
  const Oracle& (*oracle)();
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

void PrintTo(const Conversion& conversion, std::ostream* stream) { *stream << conversion.name; }

class Numeric : public testing::TestWithParam<Conversion> {};
INSTANTIATE_TEST_SUITE_P(Formats, Numeric,
                         testing::Values(Conversion{"f16", f16_oracle, f32_from_f16, f16_from_f32},
                                         Conversion{"bf16", bf16_oracle, f32_from_bf16,
                                                    bf16_from_f32}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Numeric, EveryCodeWidensToItsDefinition) {
  const Oracle& oracle = GetParam().oracle();
  for (int code = 0; code < 65536; ++code) {
    const float value = GetParam().widen(static_cast<std::uint16_t>(code));
    const int magnitude = code & 0x7FFF;
    ASSERT_EQ(std::signbit(value), code >= 0x8000) << code;
    if (magnitude > oracle.infinity) {
      ASSERT_TRUE(std::isnan(value)) << code;
    } else if (magnitude == oracle.infinity) {
      ASSERT_TRUE(std::isinf(value)) << code;
    } else {
      ASSERT_EQ(std::fabs(value), oracle.values[magnitude]) << code;
    }
  }
}

TEST_P(Numeric, EveryCodeSurvivesThereAndBack) {
  const Oracle& oracle = GetParam().oracle();
  const int quiet_bit = 1 << (oracle.mantissa_bits - 1);
  for (int code = 0; code < 65536; ++code) {
    const int back = GetParam().narrow(GetParam().widen(static_cast<std::uint16_t>(code)));
    const bool is_nan = (code & 0x7FFF) > oracle.infinity;
    ASSERT_EQ(back, is_nan ? code | quiet_bit : code) << "NaNs keep sign and payload, quietly";
  }
}

TEST_P(Numeric, RoundsToNearestEvenAtAndBesideEveryTie) {
  const Oracle& oracle = GetParam().oracle();
  for (std::size_t code = 0; code + 1 < oracle.values.size(); ++code) {
    const auto tie = static_cast<float>((oracle.values[code] + oracle.values[code + 1]) / 2);
    const float huge = std::numeric_limits<float>::infinity();
    for (float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, huge)}) {
      ASSERT_EQ(GetParam().narrow(value), oracle.nearest(value)) << value;
      ASSERT_EQ(GetParam().narrow(-value), oracle.nearest(-value)) << -value;
    }
  }
}

TEST_P(Numeric, RoundsADenseSweepOfFloatsAsTheOracle) {
  const Oracle& oracle = GetParam().oracle();
  // A prime step visits every exponent, and low bits without a pattern.
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 251) {
    const float value = f32_from_bits(static_cast<std::uint32_t>(bits));
    const std::uint16_t code = GetParam().narrow(value);
    if (std::isnan(value)) {
      ASSERT_GT(code & 0x7FFF, oracle.infinity) << bits;
    } else {
      ASSERT_EQ(code, oracle.nearest(value)) << value;
    }
  }
}

double fp8_definition(int code, int mantissa_bits, int bias) {
  const int exponent = (code & 0x7F) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return code >= 0x80 ? -magnitude : magnitude;
}

TEST(Fp8Decode, EveryE4m3CodeIsItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = f32_from_e4m3(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, fp8_definition(code, 3, 7)) << code;
      EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    }
  }
  EXPECT_EQ(f32_from_e4m3(0x7E), 448.0f);
}

TEST(Fp8Decode, EveryE5m2CodeIsItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = f32_from_e5m2(static_cast<std::uint8_t>(code));
    const int magnitude = code & 0x7F;
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    if (magnitude > 0x7C) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else if (magnitude == 0x7C) {
      EXPECT_TRUE(std::isinf(value)) << code;
    } else {
      EXPECT_EQ(value, fp8_definition(code, 2, 15)) << code;
    }
  }
  EXPECT_EQ(f32_from_e5m2(0x7B), 57344.0f);
}

TEST(ElementAccess, ReadsAndWritesAtTheIndexInEachDtype) {
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    float memory[4] = {};
    store_f32(memory, 2, dtype, -1.5f);
    EXPECT_EQ(load_f32(memory, 2, dtype), -1.5f) << name(dtype);
    EXPECT_EQ(load_f32(memory, 1, dtype), 0.0f) << name(dtype);
    EXPECT_EQ(load_f32(memory, 3, dtype), 0.0f) << name(dtype);
  }
  const std::uint8_t codes[2] = {0x38, 0xBC};
  EXPECT_EQ(load_f32(codes, 0, Dtype::e4m3), 1.0f);
  EXPECT_EQ(load_f32(codes, 1, Dtype::e5m2), -1.0f);
}

}  // namespace
}  // namespace octet
