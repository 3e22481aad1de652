// gated_activation passes its gates for any shape, dtype and data, and their reference has the
// right values and slopes.
#include "check/gates.hpp"
#include "check/ops/gated_activation_reference.hpp"
#include "check/product_case.hpp"
#include "support/environment.hpp"

namespace octet {
namespace {

constexpr GateActivation kActivations[] = {GateActivation::silu, GateActivation::gelu_tanh,
                                           GateActivation::gelu_erf, GateActivation::relu_squared};
constexpr Dtype kDtypes[] = {Dtype::bf16, Dtype::f16, Dtype::f32};

GatedActivationProblem problem_of(std::uint64_t seed) {
  GatedActivationProblem problem{.rows = 1 + static_cast<std::int64_t>(seed * 37 % 140),
                                 .cols = 1 + static_cast<std::int64_t>(seed * 53 % 300),
                                 .dtype = kDtypes[seed % 3],
                                 .activation = kActivations[seed % 4],
                                 .row_weight = seed % 2 == 1};
  if (seed % 5 == 0) problem.fp8 = Fp8Output{};
  return problem;
}

TEST(CorrectGatedActivation, PassesOnManySeeds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const GatedActivationProblem problem = problem_of(seed);
    DataOptions options;
    options.seed = seed;
    options.distribution = seed % 7 == 0 ? Distribution::skewed : Distribution::normal;
    for (const char* backend : {"", problem.fp8 ? "unfused" : "cpu_reference"}) {
      options.backend = backend;
      const GateReport report = check_gated_activation(problem, options);
      ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                                 << describe(report.results);
    }
  }
}

// unfused is an implementation of both passes, but not of the plain ones that the check compares with.
TEST(CorrectGatedActivation, PassesWhereTheEnvironmentForcesFp8Implementations) {
  GatedActivationProblem problem = problem_of(5);
  problem.fp8 = Fp8Output{};
  for (const char* forced : {"unfused", "fp8:unfused,other:cpu_reference"}) {
    const ScopedVariable variable("OCTET_GATED_ACTIVATION_BACKEND", forced);
    EXPECT_EQ(plan_gated_activation_backward(problem).implementation, "unfused");
    const GateReport report = check_gated_activation(problem, {});
    EXPECT_TRUE(report.pass()) << forced << "\n" << describe(report.results);
  }
}

// Of forward alone there is one for Hopper: the CPU refuses it in forward, backward has its default.
TEST(GatedActivationBackward, DropsNamesOfForwardInTheEnvironment) {
  GatedActivationProblem problem = problem_of(5);
  problem.fp8 = Fp8Output{Dtype::e4m3, kEachRow, std::nullopt};
  const std::string usual = plan_gated_activation_backward(problem).implementation;
  const ScopedVariable variable("OCTET_GATED_ACTIVATION_BACKEND", "cuda_sm90_row_cast");
  EXPECT_EQ(plan_gated_activation_backward(problem).implementation, usual);
  try {
    plan_gated_activation_forward(problem);
    ADD_FAILURE() << "a forced implementation of Hopper on a CPU";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the problem is on cpu"), std::string::npos)
        << error.what();
  }
}

TEST(GatedActivationReference, HasKnownValues) {
  const auto value = [](GateActivation activation, double g) {
    return reference_activation(activation, g).value;
  };
  EXPECT_NEAR(value(GateActivation::silu, 1), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(value(GateActivation::silu, -2), -0.2384058440442351, 1e-15);
  EXPECT_NEAR(value(GateActivation::gelu_tanh, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value(GateActivation::gelu_erf, 1), 0.8413447460685429, 1e-15);
  EXPECT_EQ(value(GateActivation::relu_squared, 3), 9);
  EXPECT_EQ(value(GateActivation::relu_squared, -3), 0);
}

// Slopes against finite differences of the values: tests the formulas, not the rounding.
TEST(GatedActivationReference, SlopesAreThoseOfTheValues) {
  for (const GateActivation activation : kActivations) {
    for (double g = -12; g <= 12; g += 0.0625) {
      const double step = 1e-5;
      const double difference = (reference_activation(activation, g + step).value -
                                 reference_activation(activation, g - step).value) /
                                (2 * step);
      EXPECT_NEAR(reference_activation(activation, g).slope, difference, 1e-5)
          << name(activation) << " at " << g;
    }
  }
}

}  // namespace
}  // namespace octet
