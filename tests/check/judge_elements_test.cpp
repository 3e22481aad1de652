// E1 and E2 over outputs that are corrupted on purpose, in one way at a time.
#include "check/judge/judge.hpp"
#include "check/product_case.hpp"
#include "core/message.hpp"

#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// out = x * x for random x, rounded: correct unless corrupted.
class ElementsGate : public testing::TestWithParam<Dtype> {
 protected:
  static constexpr std::int64_t kRows = 37;
  static constexpr std::int64_t kCols = 53;
  Tensor x_{Dtype::f32, {kRows, kCols}};
  GuardedMatrix out_{GetParam(), kRows, kCols, 5};

  void SetUp() override {
    fill_random(x_, Distribution::normal, {1, 0}, 1);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < kCols; ++c) {
        set_element(out_.view(), r, c, static_cast<float>(square(r, c)));
      }
    }
  }
  double square(std::int64_t row, std::int64_t col) const {
    const double x = static_cast<const float*>(x_.data())[row * kCols + col];
    return x * x;
  }
  std::vector<GateResult> judge(const JudgeOptions& options = {}) const {
    return judge_elements("y", {out_.view(), reference_}, options);
  }
  bool passes() const {
    for (const GateResult& result : judge()) {
      if (!result.pass) return false;
    }
    return judge_g6("y", out_.inspect(), {}).pass;
  }
  std::string closeness() const { return judge().back().value; }
  void set(std::int64_t row, std::int64_t col, double value) {
    set_element(out_.view(), row, col, static_cast<float>(value));
  }

  ReferenceRow reference_ = [this](std::int64_t row, std::span<double> values) {
    for (std::int64_t c = 0; c < kCols; ++c) values[static_cast<std::size_t>(c)] = square(row, c);
  };
};

TEST_P(ElementsGate, ACorrectOutputPasses) {
  const std::vector<GateResult> results = judge();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].gate, "E1");
  EXPECT_EQ(results[0].bound, GetParam() == Dtype::f32 ? "> 100 dB" : "> 45 dB");
  EXPECT_GT(results[0].snr_db, GetParam() == Dtype::f32 ? 140 : 50);
  EXPECT_EQ(results[1].gate, "E2");
  EXPECT_TRUE(passes());
}

TEST_P(ElementsGate, OneElementThatIsOffFailsAndIsNamed) {
  set(36, 52, 7);
  EXPECT_FALSE(passes());
  EXPECT_EQ(closeness(), text("row 36, column 52: 7 instead of ", square(36, 52)));
}

// An error that is too small to show in any single element.
TEST_P(ElementsGate, ManySmallErrorsFailTheSnr) {
  const double factor = GetParam() == Dtype::f32 ? 1.00005 : 1.008;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kCols; ++c) set(r, c, square(r, c) * factor);
  }
  const std::vector<GateResult> results = judge();
  EXPECT_FALSE(results[0].pass) << results[0].value;
  EXPECT_TRUE(results[1].pass) << results[1].value;
}

TEST_P(ElementsGate, ANanTooManyFails) {
  set(3, 4, kNaN);
  EXPECT_FALSE(passes());
  EXPECT_EQ(closeness(), text("row 3, column 4: nan instead of ", square(3, 4)));
}

TEST_P(ElementsGate, ANanTooFewFails) {
  static_cast<float*>(x_.data())[5 * kCols + 6] = std::numeric_limits<float>::quiet_NaN();
  set(5, 6, kNaN);
  EXPECT_TRUE(passes());
  set(5, 6, 1);
  EXPECT_FALSE(passes());
  EXPECT_EQ(closeness(), "row 5, column 6: 1 instead of nan");
}

TEST_P(ElementsGate, AnInfinityIsRightWhereTheRoundedReferenceIsOne) {
  static_cast<float*>(x_.data())[0] = 2e19f;  // its square is beyond f32
  set(0, 0, kInfinity);
  EXPECT_TRUE(judge().back().pass);
  set(0, 0, -kInfinity);
  EXPECT_FALSE(judge().back().pass);
}

TEST_P(ElementsGate, AnUnwrittenElementFails) {
  const GuardedMatrix untouched(GetParam(), kRows, kCols, 5);
  for (std::int64_t c = 0; c < kCols; ++c) {
    std::memcpy((untouched.view() + c).data, (out_.view() + c).data,
                static_cast<std::size_t>(size_bytes(GetParam())));
  }
  EXPECT_FALSE(judge_elements("y", {untouched.view(), reference_}, {}).back().pass);
  EXPECT_EQ(untouched.inspect().unwritten, (kRows - 1) * kCols);
}

TEST_P(ElementsGate, AWriteOutsideFails) {
  set_element(out_.view() + kCols, 0, 0, 1);
  EXPECT_TRUE(judge().back().pass);
  EXPECT_FALSE(passes());
}

TEST_P(ElementsGate, FewOutputsAreJudgedOnlyByCloseness) {
  TensorView few = out_.view();
  few.shape[0] = 2;
  EXPECT_EQ(judge_elements("y", {few, reference_}, {}).size(), 1u);
}

TEST_P(ElementsGate, AnExactOutputMustNotBeOffByOneStep) {
  ElementsClaim claim{out_.view(),
                      [this](std::int64_t row, std::span<double> values) {
                        reference_(row, values);
                        for (double& value : values) value = rounded(value, GetParam());
                      },
                      true};
  EXPECT_TRUE(judge_elements("y", claim, {}).back().pass);
  auto* last = static_cast<unsigned char*>((out_.view() + (36 * 58 + 52)).data);
  *last ^= 1;
  const std::vector<GateResult> results = judge_elements("y", claim, {});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].pass);
  EXPECT_EQ(results[0].bound, "equal");
}

TEST_P(ElementsGate, ASampleHasTheFirstTheLastAndOneRowOfEachRun) {
  JudgeOptions options;
  options.sample_beyond = 10 * kCols;
  const std::vector<std::int64_t> rows = judged_rows(kRows, kCols, options);
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), kRows - 1);
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_GT(rows[i], rows[i - 1]);
  EXPECT_EQ(judge(options).back().value, "all close in 10 sampled rows");
  set(36, 0, 100);
  EXPECT_FALSE(judge(options).back().pass);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ElementsGate, testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Rounded, GivesTheNearestNumberOfTheFormatAndTiesToEven) {
  EXPECT_EQ(rounded(1 + 1.0 / 256, Dtype::bf16), 1);
  EXPECT_EQ(rounded(1 + 3.0 / 256, Dtype::bf16), 1 + 4.0 / 256);
  EXPECT_EQ(rounded(65519, Dtype::f16), 65504);
  EXPECT_EQ(rounded(-65520, Dtype::f16), -kInfinity);
  EXPECT_EQ(rounded(std::ldexp(3, -25), Dtype::f16), std::ldexp(1, -23));
  EXPECT_EQ(rounded(0.1, Dtype::f32), 0.1f);
  EXPECT_EQ(rounded(1e-45, Dtype::f32), 1e-45f);
}

}  // namespace
}  // namespace octet
