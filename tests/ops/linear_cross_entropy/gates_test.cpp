// The head passes every gate in every variant, and every gate is really applied.
#include <gtest/gtest.h>

#include "ops/linear_cross_entropy/head.hpp"
#include "support/gates.hpp"

namespace octet::testing {
namespace {

// "dx dw": the tensors a gate was applied to.
std::string asked(const GateReport& report, const std::string& gate) {
  std::string result;
  for (const GateResult& one : report.results) {
    if (one.gate == gate) result += (result.empty() ? "" : " ") + one.tensor;
  }
  return result;
}

TEST(LinearCrossEntropyGates, Fp8PassesWithEveryReductionAndDistribution) {
  for (int variant = 0; variant < 3; ++variant) {
    LinearCrossEntropyProblem problem = small_problem();
    problem.reduction = static_cast<LossReduction>(variant);
    problem.grad_format = variant == 1 ? Dtype::e5m2 : Dtype::e4m3;
    problem.wgrad_blocks = variant == 2 ? WgradBlocks::square : WgradBlocks::rows;
    problem.weights_quantized = variant == 0;
    problem.dw_dtype = variant == 2 ? Dtype::f32 : Dtype::bf16;
    problem.accumulate_dw = variant == 2;
    for (const Distribution distribution :
         {Distribution::normal, Distribution::skewed, Distribution::one_signed}) {
      DataOptions options;
      options.distribution = distribution;
      const GateReport report = check_linear_cross_entropy(problem, options);
      expect_pass(report, describe(problem));
      EXPECT_EQ(asked(report, "G1"), distribution == Distribution::one_signed ? "" : "dx dw");
      EXPECT_EQ(asked(report, "G3"), "logits dx dw");
      EXPECT_EQ(asked(report, "E2"), "lse loss dlogits");
      EXPECT_EQ(asked(report, "G5"), "loss lse dx dw");
      EXPECT_EQ(asked(report, "G6"), "loss lse dx dw");
    }
  }
}

// Skewed data and many features: logits whose softmax passes on the noise of the casts.
TEST(LinearCrossEntropyGates, LargeLogitsPass) {
  DataOptions options;
  options.distribution = Distribution::skewed;
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    const LinearCrossEntropyProblem problem{
        .m = 256, .v = 1000, .k = 512, .fp8 = true, .format = format, .grad_format = format};
    expect_pass(check_linear_cross_entropy(problem, options), describe(problem));
  }
}

TEST(LinearCrossEntropyGates, PlainHeadsPass) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    LinearCrossEntropyProblem problem = small_problem(false);
    problem.dtype = problem.dw_dtype = dtype;
    const GateReport report = check_linear_cross_entropy(problem, {});
    expect_pass(report, describe(problem));
    EXPECT_EQ(asked(report, "G4"), "logits dx dw");
    EXPECT_EQ(asked(report, "G1"), "dx dw");
  }
}

TEST(LinearCrossEntropyGates, TheLossAlonePasses) {
  LinearCrossEntropyProblem problem{.m = 3, .v = 1, .k = 1, .fp8 = true, .training = false};
  const GateReport report = check_linear_cross_entropy(problem, {});
  expect_pass(report, describe(problem));
  EXPECT_EQ(asked(report, "G6"), "loss lse");
}

// Plain products with a 16-bit dw take all tokens at once where their logits are no larger than an
// f32 dw: 2 * K tokens of 2 bytes.
TEST(LinearCrossEntropyWorkspace, HasOneChunkWhereTheLogitsAreNoLargerThanAnF32Sum) {
  const auto chunk = [](const LinearCrossEntropyProblem& problem) {
    const std::string text = plan_linear_cross_entropy_forward(problem).configuration;
    return text.substr(text.rfind("chunk="));
  };
  LinearCrossEntropyProblem problem{.m = 8192, .v = 128256, .k = 4096};
  EXPECT_EQ(chunk(problem), "chunk=8192");
  problem.m = 8193;
  EXPECT_EQ(chunk(problem), "chunk=2048");
  problem.m = 8192;
  problem.dw_dtype = Dtype::f32;
  EXPECT_EQ(chunk(problem), "chunk=2048");
  problem.dw_dtype = Dtype::bf16;
  problem.reduction = LossReduction::none;  // forward computes no gradients
  EXPECT_EQ(chunk(problem), "chunk=2048");
}

// The workspace of a head of 8192 tokens and 128256 words, planned and not allocated. Its logits take
// 2.1 GB in bf16 and 4.2 GB in f32.
TEST(LinearCrossEntropyWorkspace, IsBounded) {
  LinearCrossEntropyProblem problem{.m = 8192, .v = 128256, .k = 4096};
  constexpr double kGb = 1e9;
  const auto gigabytes = [&] {
    return static_cast<double>(plan_linear_cross_entropy_forward(problem).workspace_bytes) / kGb;
  };
  problem.dw_dtype = Dtype::f32;
  EXPECT_LT(gigabytes(), 0.6);  // the logits of a chunk
  problem.dw_dtype = Dtype::bf16;
  EXPECT_LT(gigabytes(), 2.2);  // all logits, and no f32 sum of dw
  problem.fp8 = true;
  EXPECT_LT(gigabytes(), 3.1);  // w and w^T, a chunk, its FP8, and dlogits^T of all tokens
  problem.weights_quantized = true;
  EXPECT_LT(gigabytes(), 2.0);
  problem.training = false;
  problem.m = 1 << 20;  // many tokens: x in FP8 only
  EXPECT_LT(gigabytes(), 0.6 + 4.5);
}

}  // namespace
}  // namespace octet::testing
