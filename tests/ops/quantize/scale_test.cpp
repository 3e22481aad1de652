// Scales and codes of hard blocks against the oracle, for every path.
#include "ops/quantize/fp8_oracle.hpp"
#include "ops/quantize/paths.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSubnormal = std::numeric_limits<float>::denorm_min();

struct Case {
  const char* what;
  std::vector<float> pattern;  // repeated over the row
  float floor;
};

const Case kCases[] = {
    {"zeros keep scale 1", {0.0f, -0.0f}, 0},
    {"zeros with a floor", {0.0f, -0.0f}, 1e-4f},
    {"the smallest subnormal", {kSubnormal, 0, -kSubnormal}, 0},
    {"subnormals", {1e-40f, -3e-41f, 7e-39f}, 0},
    {"1e-38", {1e-38f, -0.3e-38f, 0}, 0},
    {"just above the smallest scale", {448 * 1.18e-38f, 57344 * 1.18e-38f, 1e-39f}, 0},
    {"huge", {kLargest, -kLargest, 1e30f, 1}, 0},
    {"a floor above the values", {0.5f, -0.25f, 1e-3f}, 2.0f},
    {"a floor below the values", {0.5f, -0.25f, 1e-3f}, 1e-4f},
    {"the largest floor", {0.5f, -0.25f, 1e15f}, 1e18f},
    {"a subnormal floor", {0, 1e-45f}, 1e-42f},
    {"a power of two times the limit", {448, 57344, 1, -3}, 0},
    {"one ulp above a power of two",
     {std::nextafter(448.0f, 1e3f), std::nextafter(57344.0f, 1e6f)},
     0},
    {"thirds", {1.0f / 3, -2.0f / 3, 1.0f / 7, 3.3333f}, 0},
    {"nothing finite", {kNan, kInfinity, -kInfinity, -kNan}, 0},
    {"non-finite values apart", {1, kNan, -2, kInfinity, 3, -kInfinity, 0.001f}, 0},
    {"non-finite beside the largest", {kLargest, kInfinity, -kNan, 1e-45f}, 0},
};

void expect_row(const Case& given, const QuantizeProblem& problem, Path path) {
  const oracle::Fp8Table table(problem.format);
  Input input(1, problem.cols, problem.input_dtype);
  std::vector<float> row;
  for (std::int64_t c = 0; c < problem.cols; ++c) {
    input.set(0, c, given.pattern[static_cast<std::size_t>(c) % given.pattern.size()]);
    row.push_back(input.at(0, c));
  }
  const ForeignCopies copies(problem);
  quantize_by(path, problem, copies.args(input.view()));
  for (std::int64_t block = 0; block * kBlock < problem.cols; ++block) {
    const auto begin = row.begin() + block * kBlock;
    const auto end = row.begin() + std::min((block + 1) * kBlock, problem.cols);
    const oracle::Scale scale =
        oracle::block_scale({begin, end}, table.limit(), problem.amax_floor, problem.pow2_scales);
    EXPECT_EQ(bits_of(copies.out.scale(0, block)), bits_of(scale.inverse))
        << given.what << ", " << name(path) << ": " << describe(problem);
    for (auto x = begin; x != end; ++x) {
      const float wanted = std::isfinite(*x) ? oracle::product(*x, scale.forward) : *x;
      ASSERT_EQ(copies.out.code(0, x - row.begin()), table.encode(wanted))
          << given.what << ", " << name(path) << ", " << *x << ": " << describe(problem);
    }
  }
}

TEST(QuantizeScale, FollowsTheFrozenRulesOnHardBlocks) {
  for (const Case& given : kCases) {
    for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      for (Dtype input : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (bool pow2 : {false, true}) {
          QuantizeProblem problem{.rows = 1,
                                  .cols = 300,
                                  .input_dtype = input,
                                  .format = format,
                                  .amax_floor = given.floor,
                                  .pow2_scales = pow2};
          for (Path path : all_paths()) expect_row(given, problem, path);
        }
      }
    }
  }
}

TEST(QuantizeScale, GivesInfinitiesAndNanTheirCodes) {
  for (Path path : all_paths()) {
    for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      QuantizeProblem problem{.rows = 1, .cols = 4, .format = format};
      Input input(1, 4, Dtype::bf16);
      const float row[] = {kNan, kInfinity, -kInfinity, 2};
      for (int c = 0; c < 4; ++c) input.set(0, c, row[c]);
      const ForeignCopies copies(problem);
      quantize_by(path, problem, copies.args(input.view()));
      const bool e5m2 = format == Dtype::e5m2;
      EXPECT_EQ(copies.out.code(0, 0), 0x7F) << name(path);
      EXPECT_EQ(copies.out.code(0, 1), e5m2 ? 0x7C : 0x7F) << name(path);
      EXPECT_EQ(copies.out.code(0, 2), e5m2 ? 0xFC : 0x7F) << name(path);
      EXPECT_EQ(copies.out.code(0, 3), e5m2 ? 0x7B : 0x7E) << name(path);
    }
  }
}

}  // namespace
}  // namespace octet
