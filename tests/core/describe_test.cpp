// Numbers in the description of a problem parse back to the same values.
#include "core/message.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>

namespace octet {
namespace {

// The number after "--eps" in "... --eps 1e-05 --device cpu".
float value_of(const std::string& description, const std::string& option) {
  const std::size_t at = description.find(" " + option + " ");
  if (at == std::string::npos) return -1;
  return std::strtof(description.c_str() + at + option.size() + 2, nullptr);
}

// Positive numbers up to the largest amax_floor, with all exponents, including subnormals.
std::vector<float> numbers() {
  std::vector<float> result{0.5f, 0.1f, 1e-4f, 1e-5f, 1.0f / 3, 16777217.0f, 1e18f, 1e-45f};
  std::mt19937 random(1);
  const std::uint32_t most = std::bit_cast<std::uint32_t>(1e18f);
  for (int i = 0; i < 1000; ++i) {
    result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() % most + 1)));
  }
  return result;
}

TEST(Describe, NumbersReadBackAsTheyWere) {
  for (const float number : numbers()) {
    Fp8Output fp8;
    fp8.amax_floor = number;
    QuantizeProblem quantize;
    quantize.amax_floor = number;
    Fp8LinearProblem linear;
    linear.amax_floor = number;
    GatedMlpProblem mlp{.fp8 = true, .amax_floor = number};
    GatedActivationProblem activation;
    activation.fp8 = fp8;
    RmsNormProblem norm;
    norm.fp8 = fp8;
    norm.eps = number;
    RmsNormRopeProblem norm_rope;
    norm_rope.eps = number;
    for (const std::string& description : {describe(quantize), describe(linear), describe(mlp),
                                           describe(activation), describe(norm)}) {
      EXPECT_EQ(value_of(description, "--amax-floor"), number) << description;
    }
    for (const std::string& description : {describe(norm), describe(norm_rope)}) {
      EXPECT_EQ(value_of(description, "--eps"), number) << description;
    }
  }
}

TEST(Describe, NumbersHaveNoMoreDigitsThanTheyNeed) {
  EXPECT_EQ(exact_text(0.5f), "0.5");
  EXPECT_EQ(exact_text(1e-4f), "0.0001");
  EXPECT_EQ(exact_text(1e-6f), "1e-06");
  EXPECT_EQ(exact_text(1e18f), "1e+18");
  EXPECT_EQ(exact_text(1.0f / 3), "0.33333334");
  EXPECT_EQ(exact_text(16777216.0f), "16777216");
}

}  // namespace
}  // namespace octet
