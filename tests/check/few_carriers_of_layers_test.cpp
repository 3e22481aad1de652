// Layers of several products on data whose energy a few numbers have, and heads whose softmax passes
// on the noise of their casts: correct ones pass every gate. Seeds that failed once.
#include "support/gates.hpp"

#include <octet/octet.hpp>

#include <cmath>

namespace octet {
namespace {

GateReport report_of(const MoeMlpProblem& problem, Distribution distribution, std::uint64_t seed) {
  const GateReport report = check_moe_mlp(problem, data_of(distribution, seed));
  expect_pass(report, describe(problem) + ", seed " + std::to_string(seed));
  return report;
}

TEST(FewCarriersOfLayers, OutliersOfExpertsPass) {
  MoeMlpProblem problem{.tokens = 94, .f = 30, .k = 130, .experts = 8, .top_k = 1};
  report_of(problem, Distribution::outliers, 564762);
  problem = {.tokens = 257, .f = 100, .k = 100, .experts = 8, .top_k = 1};
  problem.activation = GateActivation::relu_squared;
  const GateReport report = report_of(problem, Distribution::outliers, 691414);
  EXPECT_TRUE(std::isnan(report.snr_db("G1", "dlogits")));
}

TEST(FewCarriersOfLayers, SkewedExpertsPassAndHaveG1) {
  const MoeMlpProblem problem{.tokens = 129, .f = 258, .k = 100, .experts = 4, .top_k = 1};
  const GateReport report = report_of(problem, Distribution::skewed, 522989);
  for (const char* tensor : {"y", "dx", "dw_gate_up", "dw_down"}) {
    EXPECT_GT(report.snr_db("G1", tensor), 10) << tensor;
  }
}

TEST(FewCarriersOfLayers, NormalExpertsKeepTheirBound) {
  const MoeMlpProblem problem{.tokens = 64, .f = 64, .k = 64, .experts = 4, .top_k = 2};
  const GateReport report = report_of(problem, Distribution::normal, 1);
  for (const char* tensor : {"y", "dx", "dw_gate_up", "dw_down"}) {
    EXPECT_GT(report.snr_db("G1", tensor), 20) << tensor;
  }
}

TEST(FewCarriersOfLayers, OutliersOfAGatedMlpIn16BitsPass) {
  GatedMlpProblem problem{.m = 129, .f = 129, .k = 33};
  expect_pass(check_gated_mlp(problem, data_of(Distribution::outliers, 676522)), "bf16");
  problem = {.m = 257, .f = 33, .k = 40, .dtype = Dtype::f16};
  problem.down = true;
  problem.dw_dtype = Dtype::f16;
  expect_pass(check_gated_mlp(problem, data_of(Distribution::outliers, 344619)), "f16 overflows");
}

TEST(FewCarriersOfLayers, AHeadOfLargeLogitsPasses) {
  LinearCrossEntropyProblem problem{.m = 257, .v = 257, .k = 64};
  expect_pass(check_linear_cross_entropy(problem, data_of(Distribution::skewed, 30668)), "bf16");
  problem = {.m = 30, .v = 385, .k = 129};
  problem.fp8 = true;
  problem.wgrad_blocks = WgradBlocks::square;
  expect_pass(check_linear_cross_entropy(problem, data_of(Distribution::outliers, 634856)), "FP8");
}

// 1 / 240, the large gradient of every token, is half a step from what e4m3 has.
TEST(FewCarriersOfLayers, AHeadWhoseGradientsAllRoundAlikePasses) {
  LinearCrossEntropyProblem problem{.m = 260, .v = 300, .k = 65};
  problem.fp8 = true;
  problem.pow2_scales = true;
  const GateReport report = check_linear_cross_entropy(problem, data_of(Distribution::normal, 260));
  expect_pass(report, describe(problem));
  EXPECT_GT(report.snr_db("G1", "dw"), 23);
  EXPECT_LT(report.snr_db("G1", "dw"), 24.5);
  problem.pow2_scales = false;
  EXPECT_GT(
      check_linear_cross_entropy(problem, data_of(Distribution::normal, 260)).snr_db("G1", "dw"),
      28);
}

}  // namespace
}  // namespace octet
