// NaN and infinities reach exactly the outputs that depend on them.
#include "ops/rms_norm/case.hpp"

#include <cmath>
#include <functional>
#include <limits>

namespace octet {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kRows = 5;
constexpr std::int64_t kCols = 70;  // a tail after whole vectors
constexpr std::int64_t kRow = 2;
constexpr std::int64_t kCol = 67;

class RmsNormNonFinite : public testing::TestWithParam<std::string> {
 protected:
  static RmsNormProblem problem() {
    RmsNormProblem problem{.rows = kRows, .cols = kCols, .residual = true};
    return problem;
  }
  RmsNormCase case_{problem(), 3};

  void SetUp() override {
    float value = 0.25f;
    for (const PitchedTensor* tensor : case_.inputs()) {
      tensor->fill([&] { return value = value > 4 ? 0.25f : value + 0.375f; });
    }
  }
  void run() {
    case_.run_forward(GetParam(), 2);
    case_.run_backward(GetParam(), 2, true);
  }
  using Where = std::function<bool(std::int64_t row, std::int64_t col)>;
  static void expect_nan(const char* what, const PitchedTensor& tensor, const Where& where) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const std::int64_t cols = tensor.view().rank == 1 ? tensor.count() : kCols;
      EXPECT_EQ(!std::isfinite(tensor.at(i)), where(i / cols, i % cols)) << what << " " << i;
    }
  }
  static bool nowhere(std::int64_t, std::int64_t) { return false; }
  static bool at_element(std::int64_t row, std::int64_t col) { return row == kRow && col == kCol; }
  static bool in_row(std::int64_t row, std::int64_t) { return row == kRow; }
  static bool in_column(std::int64_t, std::int64_t col) { return col == kCol; }
  static bool anywhere(std::int64_t, std::int64_t) { return true; }
  static constexpr std::int64_t kElement = kRow * kCols + kCol;
};

TEST_P(RmsNormNonFinite, ANanInXReachesItsRowAndEveryGradientOfTheWeight) {
  case_.x.set(kElement, kNaN);
  run();
  expect_nan("sum", case_.sum, at_element);
  expect_nan("y", case_.y, in_row);
  expect_nan("rstd", case_.rstd, [](std::int64_t, std::int64_t row) { return row == kRow; });
  expect_nan("dx", case_.dx, in_row);
  expect_nan("dg", case_.dg, anywhere);
}

TEST_P(RmsNormNonFinite, AnInfinityInXMakesTheOthersOfItsRowZero) {
  case_.residual.set(kElement, -kInfinity);
  run();
  expect_nan("sum", case_.sum, at_element);
  expect_nan("y", case_.y, at_element);
  expect_nan("rstd", case_.rstd, nowhere);
  EXPECT_EQ(case_.rstd.at(kRow), 0);
  EXPECT_EQ(case_.y.at(kRow * kCols), 0);
  expect_nan("dg", case_.dg, in_column);
}

TEST_P(RmsNormNonFinite, ANanInGReachesItsColumnAndEveryGradientOfTheInput) {
  case_.g.set(kCol, kNaN);
  run();
  expect_nan("y", case_.y, in_column);
  expect_nan("rstd", case_.rstd, nowhere);
  expect_nan("dx", case_.dx, anywhere);
  expect_nan("dg", case_.dg, nowhere);
}

TEST_P(RmsNormNonFinite, ANanInDyReachesItsRowAndItsColumnOfDg) {
  case_.dy.set(kElement, kNaN);
  run();
  expect_nan("y", case_.y, nowhere);
  expect_nan("dx", case_.dx, in_row);
  expect_nan("dresidual", case_.dresidual, in_row);
  expect_nan("dg", case_.dg, in_column);
}

TEST_P(RmsNormNonFinite, ANanInDsumReachesItsElement) {
  case_.dsum.set(kElement, kNaN);
  run();
  expect_nan("dx", case_.dx, at_element);
  expect_nan("dg", case_.dg, nowhere);
}

INSTANTIATE_TEST_SUITE_P(Implementations, RmsNormNonFinite,
                         testing::Values("cpu_simd", "cpu_reference"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace octet
