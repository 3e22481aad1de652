// The layer passes every gate in every variant, and every gate is really applied.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"
#include "support/gates.hpp"

namespace octet::testing {
namespace {

// "y dx": the tensors a gate was applied to.
std::string asked(const GateReport& report, const std::string& gate) {
  std::string result;
  for (const GateResult& one : report.results) {
    if (one.gate == gate) result += (result.empty() ? "" : " ") + one.tensor;
  }
  return result;
}

GateReport expect_pass(const GatedMlpProblem& problem, Distribution distribution) {
  DataOptions options;
  options.distribution = distribution;
  GateReport report = check_gated_mlp(problem, options);
  expect_pass(report, describe(problem));
  return report;
}

TEST(GatedMlpGates, Fp8PassesWithEveryActivationAndDistribution) {
  for (int variant = 0; variant < 4; ++variant) {
    GatedMlpProblem problem = small_problem();
    problem.activation = static_cast<GateActivation>(1 + variant);
    problem.grad_format = variant == 1 ? Dtype::e5m2 : Dtype::e4m3;
    problem.wgrad_blocks = variant == 2 ? WgradBlocks::square : WgradBlocks::rows;
    problem.weights_quantized = variant == 3;
    problem.dw_dtype = variant == 2 ? Dtype::f32 : Dtype::bf16;
    problem.accumulate_dw = variant == 2;
    const GateReport report = expect_pass(problem, static_cast<Distribution>(variant % 3));
    EXPECT_EQ(asked(report, "G1"), "y dx dw_gate_up dw_down");
    EXPECT_EQ(asked(report, "G3"), "gate_up dh y dx dw_gate_up dw_down");
    EXPECT_EQ(asked(report, "E2"), "h dgate dup");
    EXPECT_EQ(asked(report, "Q"), variant == 3 ? "x_t h_t" : "x_t w_gate_up_t h_t w_down_t");
    EXPECT_EQ(asked(report, "F"), variant == 3
                                      ? "gate_up y dx dw_gate_up dw_down x_t h_t"
                                      : "gate_up y dx dw_gate_up dw_down x_t w_gate_up_t h_t "
                                        "w_down_t");
  }
}

TEST(GatedMlpGates, EveryGranularityPasses) {
  constexpr Granularity kOthers[] = {Granularity::tensorwise, Granularity::rowwise,
                                     Granularity::mxfp8};
  for (int variant = 0; variant < 12; ++variant) {
    GatedMlpProblem problem = small_problem();
    problem.granularity = kOthers[variant % 3];
    problem.down = variant % 2 == 0;
    problem.weights_quantized = variant / 3 == 1;
    problem.grad_format = variant / 3 == 2 ? Dtype::e5m2 : Dtype::e4m3;
    if (problem.granularity == Granularity::mxfp8 && problem.down) {
      problem.wgrad_blocks = WgradBlocks::square;
      problem.mx_scale = MxScale::up;
    }
    const GateReport report = expect_pass(problem, static_cast<Distribution>(variant / 3 % 3));
    EXPECT_EQ(asked(report, "G1"), problem.down ? "y dx dw_gate_up dw_down" : "dx dw_gate_up");
  }
}

// Few numbers have most of the energy there, so G1 asks for less and for more elements.
TEST(GatedMlpGates, OutliersPassInEveryGranularity) {
  for (const Granularity granularity : {Granularity::blockwise, Granularity::tensorwise,
                                        Granularity::rowwise, Granularity::mxfp8}) {
    GatedMlpProblem problem = small_problem();
    problem.granularity = granularity;
    EXPECT_EQ(asked(expect_pass(problem, Distribution::outliers), "G1"), "") << "too few elements";
    problem.m = problem.k = problem.f = 256;
    problem.activation = GateActivation::relu_squared;
    EXPECT_EQ(asked(expect_pass(problem, Distribution::outliers), "G1"), "y dx dw_gate_up dw_down");
  }
}

TEST(GatedMlpGates, RowwisePassesWithoutWeightGradients) {
  for (const bool training : {false, true}) {
    for (const bool down : {false, true}) {
      GatedMlpProblem problem = small_problem();
      problem.granularity = Granularity::rowwise;
      problem.down = down;
      problem.training = training;
      problem.need_dw = false;
      expect_pass(problem, Distribution::normal);
    }
  }
}

TEST(GatedMlpGates, Fp8WithoutDownPassesWithTails) {
  GatedMlpProblem problem = small_problem();
  problem.m = 65;
  problem.f = 33;
  problem.down = false;
  problem.dtype = Dtype::f16;
  const GateReport report = expect_pass(problem, Distribution::normal);
  EXPECT_EQ(asked(report, "G1"), "dx dw_gate_up");
  EXPECT_EQ(asked(report, "Q"), "h_fp8 h_fp8_t x_t w_gate_up_t");
}

TEST(GatedMlpGates, PlainLayersPass) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    GatedMlpProblem problem = small_problem();
    problem.fp8 = false;
    problem.down = dtype != Dtype::f16;
    problem.dtype = problem.dw_dtype = dtype;
    const GateReport report = expect_pass(problem, Distribution::normal);
    EXPECT_EQ(asked(report, "G1"), problem.down ? "y dx dw_gate_up dw_down" : "dx dw_gate_up");
    EXPECT_EQ(asked(report, "F") + asked(report, "Q"), "");
    EXPECT_GT(report.snr_db("G1", "dx"), dtype == Dtype::f32 ? 100 : 45);
  }
}

TEST(GatedMlpGates, PartsOfTheLayerPass) {
  for (const bool fp8 : {false, true}) {
    for (int variant = 0; variant < 3; ++variant) {
      GatedMlpProblem problem = small_problem();
      problem.m = 3;
      problem.fp8 = fp8;
      problem.training = variant != 0;
      problem.need_dx = variant != 1;
      problem.need_dw = variant != 2;
      const GateReport report = expect_pass(problem, Distribution::normal);
      EXPECT_EQ(asked(report, "G1"), "") << "too few elements for an SNR";
      EXPECT_EQ(asked(report, "G3"), variant == 0   ? "gate_up y"
                                     : variant == 1 ? "gate_up dh y dw_gate_up dw_down"
                                                    : "gate_up dh y dx");
    }
  }
}

TEST(GatedMlpGates, WhatCannotRunIsRefusedBeforeDataIsMade) {
  GatedMlpProblem problem = small_problem();
  problem.f = 0;
  EXPECT_THROW(check_gated_mlp(problem, {}), Error);
}

}  // namespace
}  // namespace octet::testing
