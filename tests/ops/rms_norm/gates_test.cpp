// The gates over rms_norm, and the gradient formulas of their reference against finite differences.
#include "check/ops/rms_norm_reference.hpp"
#include "core/message.hpp"
#include "core/views.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/rms_norm/problem.hpp"
#include "support/environment.hpp"
#include "support/gates.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace octet {
namespace {

void expect_pass(const RmsNormProblem& problem, const DataOptions& options = {}) {
  expect_pass(check_rms_norm(problem, options), describe(problem));
}

RmsNormProblem problem_of(std::int64_t rows, std::int64_t cols) {
  RmsNormProblem problem{.rows = rows, .cols = cols};
  return problem;
}

TEST(RmsNormGates, PassOnEveryHiddenSize) {
  for (const std::int64_t cols : {33, 128, 513, 4096, 5120, 7168, 16384}) {
    for (const std::int64_t rows : {1, 37}) {
      RmsNormProblem problem = problem_of(rows, cols);
      problem.residual = rows != 1;
      expect_pass(problem);
    }
  }
  expect_pass(problem_of(511, 513));
  expect_pass(problem_of(8192, 128));
}

TEST(RmsNormGates, PassForEveryDtypeAndOption) {
  constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  int number = 0;
  for (const Dtype dtype : kDtypes) {
    for (const Dtype weight : kDtypes) {
      RmsNormProblem problem = problem_of(65, 129);
      problem.dtype = dtype;
      problem.weight_dtype = weight;
      problem.dg_dtype = kDtypes[number % 3];
      problem.residual = number % 2 == 0;
      problem.one_plus_weight = number % 4 < 2;
      problem.eps = 1e-2f;
      DataOptions options;
      options.seed = static_cast<std::uint64_t>(++number);
      options.distribution = number % 3 == 0 ? Distribution::skewed : Distribution::normal;
      expect_pass(problem, options);
    }
  }
}

TEST(RmsNormGates, PassForFp8OutputsWithTails) {
  for (const std::int64_t rows : {1, 130, 257}) {
    RmsNormProblem problem = problem_of(rows, 333);
    problem.fp8.emplace();
    problem.residual = rows == 130;
    expect_pass(problem);
    problem.fp8->format = Dtype::e5m2;
    problem.fp8->block = kBlock128x128;
    problem.fp8->transposed_block.reset();
    problem.fp8->pow2_scales = true;
    expect_pass(problem);
    DataOptions unfused;
    unfused.backend = "unfused";
    expect_pass(problem, unfused);
  }
}

// The variable and the argument of a check are one name for both passes, with FP8 and without.
TEST(RmsNormGates, PassWhereAnImplementationOfForwardAloneIsForced) {
  RmsNormProblem problem = problem_of(130, 333);
  problem.fp8.emplace();
  problem.residual = true;
  for (const char* forced : {"unfused", "fp8:unfused"}) {
    const ScopedVariable variable("OCTET_RMS_NORM_BACKEND", forced);
    EXPECT_EQ(plan_rms_norm_forward(problem).implementation, "unfused");
    expect_pass(problem);
  }
}

TEST(RmsNormBackward, DropsNamesOfForwardInTheEnvironmentAlone) {
  RmsNormProblem problem = problem_of(2, 4);
  problem.fp8.emplace();
  const std::string usual = plan_rms_norm_backward(problem).implementation;
  for (const auto& entry : rms_norm_forward_implementations()) {
    const std::string name = entry.name;
    if (has_name(rms_norm_backward_implementations(), name)) continue;
    const ScopedVariable variable("OCTET_RMS_NORM_BACKEND", entry.name);
    const RmsNormBackwardPlan plan = plan_rms_norm_backward(problem);
    EXPECT_EQ(plan.implementation, usual) << name;
    EXPECT_EQ(plan.why.find("forced"), std::string::npos) << plan.why;
    const PlanOptions asked{name, 1};
    EXPECT_EQ(refusal([&] { plan_rms_norm_backward(problem, asked); }),
              "rms_norm: no implementation is called \"" + name +
                  "\", forced by argument; there are: cuda_sm90_rows, cpu_simd, cpu_reference");
  }
  const ScopedVariable variable("OCTET_RMS_NORM_BACKEND", "cpu_reference");
  EXPECT_EQ(plan_rms_norm_backward(problem).implementation, "cpu_reference");
  const ScopedVariable unknown("OCTET_RMS_NORM_BACKEND", "nonsense");
  EXPECT_EQ(refusal([&] { plan_rms_norm_backward(problem); }),
            "rms_norm: no implementation is called \"nonsense\", forced by "
            "OCTET_RMS_NORM_BACKEND; there are: cuda_sm90_rows, cpu_simd, cpu_reference");
}

TEST(RmsNormGates, HaveNothingToJudgeWithoutRows) {
  EXPECT_EQ(refusal([] { check_rms_norm(problem_of(0, 100), {}); }),
            "check rms_norm: rows must be at least 1, got 0");
}

// f(x, g) = sum(dy * y): its derivatives are dx and dg.
struct SmallCase {
  RmsNormProblem problem = problem_of(3, 5);
  Tensor x{Dtype::f32, {3, 5}};
  Tensor g{Dtype::f32, {5}};
  Tensor dy{Dtype::f32, {3, 5}};

  SmallCase() {
    problem.dtype = problem.weight_dtype = Dtype::f32;
    problem.one_plus_weight = true;
    problem.eps = 0.1f;
    fill_random(x, Distribution::normal, {1, 0}, 1);
    fill_random(as_row(g), Distribution::normal, {1, 1}, 1);
    fill_random(dy, Distribution::normal, {1, 2}, 1);
  }
  static double at(const Tensor& tensor, int i) {
    return static_cast<const float*>(tensor.data())[i];
  }

  // f with `step` added to one element of x, or of g.
  double value(int x_element, int g_element, double step) const {
    double f = 0;
    for (int r = 0; r < 3; ++r) {
      double row[5];
      double squares = 0;
      for (int c = 0; c < 5; ++c) {
        row[c] = at(x, 5 * r + c) + (x_element == 5 * r + c ? step : 0);
        squares += row[c] * row[c];
      }
      const double root = std::sqrt(squares / 5 + double{problem.eps});
      for (int c = 0; c < 5; ++c) {
        const double w = 1 + at(g, c) + (g_element == c ? step : 0);
        f += at(dy, 5 * r + c) * w * row[c] / root;
      }
    }
    return f;
  }
  double slope(int x_element, int g_element) const {
    constexpr double kStep = 1e-5;
    return (value(x_element, g_element, kStep) - value(x_element, g_element, -kStep)) / (2 * kStep);
  }
};

TEST(RmsNormReference, GradientsAreThoseOfFiniteDifferences) {
  const SmallCase small;
  const RmsNormInputs inputs{small.x, {}, small.g, small.dy, {}};
  const RmsNormReference reference(small.problem, inputs, {0, 1, 2});
  for (int r = 0; r < 3; ++r) {
    double dx[5];
    reference.dx_row(r, dx);
    for (int c = 0; c < 5; ++c) EXPECT_NEAR(dx[c], small.slope(5 * r + c, -1), 1e-8) << r << c;
  }
  const RmsNormSums sums(small.problem, inputs, 1);
  for (int c = 0; c < 5; ++c) {
    EXPECT_NEAR(sums.dg[static_cast<std::size_t>(c)], small.slope(-1, c), 1e-8) << c;
  }
}

}  // namespace
}  // namespace octet
