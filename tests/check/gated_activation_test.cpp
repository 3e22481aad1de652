// gated_activation passes its gates for any shape, dtype and data, and their reference has the
// right values and slopes.
#include "check/gates.hpp"
#include "check/ops/gated_activation_reference.hpp"
#include "check/product_case.hpp"

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
