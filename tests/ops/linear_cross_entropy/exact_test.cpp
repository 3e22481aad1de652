// Results that are known to the last bit: uniform logits with small integers, and the chain of single
// operators.
#include <gtest/gtest.h>

#include "ops/linear_cross_entropy/head.hpp"
#include "ops/linear_cross_entropy/rows.hpp"

namespace octet::testing {
namespace {

void fill_integers(const Tensor& tensor) {
  const Dtype dtype = tensor.view().dtype;
  for (std::int64_t i = 0; i < tensor.view().rows() * tensor.view().cols(); ++i) {
    store_f32(tensor.data(), i, dtype, static_cast<float>((i * 37) % 9 - 4));
  }
}
void fill_zeros(const Tensor& tensor) { std::memset(tensor.data(), 0, tensor.bytes()); }

// All logits are 0, so a softmax is 1/128 and dlogits are 1/128 and -127/128, exact in bf16.
LinearCrossEntropyProblem uniform_problem() {
  LinearCrossEntropyProblem problem{.m = 200, .v = 128, .k = 72};
  problem.reduction = LossReduction::sum;
  problem.dw_dtype = Dtype::f32;
  problem.max_chunk_rows = 128;
  return problem;
}

TEST(LinearCrossEntropyExact, LossOfUniformLogits) {
  LinearCrossEntropyProblem problem = uniform_problem();
  problem.reduction = LossReduction::none;
  for (const bool fp8 : {false, true}) {
    problem.fp8 = fp8;
    const Head head(problem);
    fill_zeros(head.x);
    head.run_forward();
    for (std::int64_t i = 0; i < problem.m; ++i) {
      EXPECT_EQ(head.loss_at(i), static_cast<float>(std::log(128.0))) << i;
    }
  }
}

TEST(LinearCrossEntropyExact, DataGradientOfUniformLogits) {
  Head head(uniform_problem());
  head.loss_grad = filled(Dtype::f32, {1}, 2);
  fill_zeros(head.x);
  fill_integers(head.w);
  head.run_forward();
  const std::vector<double> w = values_of(head.w), dx = values_of(head.dx), dw = values_of(head.dw);
  for (std::int64_t i = 0; i < 200; ++i) {
    for (std::int64_t c = 0; c < 72; ++c) {
      double sum = 0;
      for (std::int64_t v = 0; v < 128; ++v) sum += w[v * 72 + c];
      const double wanted = 2 * (sum / 128 - w[head.target(i) * 72 + c]);
      const float rounded = f32_from_bf16(bf16_from_f32(static_cast<float>(wanted)));
      ASSERT_EQ(dx[i * 72 + c], rounded) << i << ", " << c;
    }
  }
  for (const double value : dw) ASSERT_EQ(value, 0);
}

TEST(LinearCrossEntropyExact, WeightGradientOfUniformLogits) {
  LinearCrossEntropyProblem problem = uniform_problem();
  problem.accumulate_dw = true;
  Head head(problem);
  head.loss_grad = filled(Dtype::f32, {1}, 4);
  head.set_target(5, problem.ignore_index);
  fill_integers(head.x);
  fill_zeros(head.w);
  head.run_forward();
  const std::vector<double> x = values_of(head.x), dw = values_of(head.dw);
  std::vector<double> wanted(128 * 72, 5);
  for (std::int64_t i = 0; i < 200; ++i) {
    if (i == 5) continue;
    for (std::int64_t v = 0; v < 128; ++v) {
      for (std::int64_t c = 0; c < 72; ++c) {
        wanted[v * 72 + c] += 4 * (1 / 128.0 - (v == head.target(i) ? 1 : 0)) * x[i * 72 + c];
      }
    }
  }
  for (std::size_t i = 0; i < dw.size(); ++i) ASSERT_EQ(dw[i], wanted[i]) << i;
}

// fp8_linear forward, the rows on all logits at once, fp8_linear backward.
void expect_equals_chain(const LinearCrossEntropyProblem& problem) {
  const Head head(problem);
  head.set_target(17, problem.ignore_index);
  head.run();

  Fp8LinearProblem linear{.m = problem.m, .n = problem.v, .k = problem.k, .dtype = problem.dtype};
  linear.format = problem.format;
  linear.grad_format = problem.grad_format;
  linear.wgrad_blocks = problem.wgrad_blocks;
  linear.dw_dtype = problem.dw_dtype;
  Fp8Linear layer(linear);
  const Tensor logits(problem.dtype, {problem.m, problem.v});
  layer.forward(head.x, head.w, logits);
  const std::int64_t pitch = (problem.v + 7) / 8 * 8;  // the rows want whole vectors
  const Tensor padded(problem.dtype, {problem.m, pitch});
  const auto row_bytes = static_cast<std::size_t>(problem.v * size_bytes(problem.dtype));
  const auto copy_rows = [&](const Tensor& from, const Tensor& to) {
    for (std::int64_t i = 0; i < problem.m; ++i) {
      std::memcpy(row_at(to, i), row_at(from, i), row_bytes);
    }
  };
  copy_rows(logits, padded);
  LossRowsProblem rows{problem.v,         problem.dtype, problem.target_dtype, problem.ignore_index,
                       problem.reduction, problem.device};
  const LossRowsPlan plan = make_plan(loss_rows_implementations(), rows,
                                      make_request("linear_cross_entropy", "fp8", "", ""), {});
  LossTotals totals{};
  run_plan(plan, LossRowsStep(CountTargets{head.targets, head.loss_grad, &totals}), {}, nullptr);
  const Tensor losses(Dtype::f32, {problem.m}), loss(Dtype::f32, {1});
  LossOfRows step;
  step.logits = make_matrix(padded.data(), problem.dtype, problem.m, problem.v, pitch);
  step.targets = head.targets;
  step.loss = losses;
  step.gradient = true;
  step.totals = &totals;
  run_plan(plan, LossRowsStep(step), {}, nullptr);
  run_plan(plan, LossRowsStep(SumLosses{losses, &totals, loss}), {}, nullptr);
  copy_rows(padded, logits);
  const Tensor dx(problem.dtype, {problem.m, problem.k});
  const Tensor dw(problem.dw_dtype, {problem.v, problem.k});
  layer.backward(logits, dx, dw);
  EXPECT_TRUE(equal(head.loss, loss));
  EXPECT_TRUE(equal(head.dx, dx));
  EXPECT_TRUE(equal(head.dw, dw));
}

TEST(LinearCrossEntropyExact, Fp8IsTheChainOfSingleOperators) {
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      LinearCrossEntropyProblem problem = small_problem();
      problem.dtype = dtype;
      problem.wgrad_blocks = blocks;
      problem.grad_format = dtype == Dtype::f32 ? Dtype::e5m2 : Dtype::e4m3;
      expect_equals_chain(problem);
    }
  }
}

TEST(LinearCrossEntropyExact, ChunksChangeNoBit) {
  for (const bool fp8 : {false, true}) {
    LinearCrossEntropyProblem problem = small_problem(fp8);
    problem.max_chunk_rows = 0;
    const Head whole(problem);
    whole.run();
    for (const std::int64_t rows : {128, 256, 384}) {
      problem.max_chunk_rows = rows;
      const Head cut(problem);
      cut.run();
      EXPECT_TRUE(equal(whole.loss, cut.loss)) << rows;
      EXPECT_TRUE(equal(whole.lse, cut.lse)) << rows;
      EXPECT_TRUE(equal(whole.dx, cut.dx)) << rows;
      // Plain products are added up chunk by chunk.
      EXPECT_TRUE(!fp8 || equal(whole.dw, cut.dw)) << rows;
    }
  }
}

}  // namespace
}  // namespace octet::testing
