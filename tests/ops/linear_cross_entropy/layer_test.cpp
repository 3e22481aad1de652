// Random data against f64, and what must not change the result.
#include <gtest/gtest.h>

#include "device/cuda_runtime.hpp"
#include "ops/linear_cross_entropy/cpu_simd.hpp"
#include "ops/linear_cross_entropy/head.hpp"
#include "ops/linear_cross_entropy/state.hpp"

namespace octet::testing {
namespace {

// bf16 products lose little more than bf16 itself; FP8 has errors of 2^-4 in each operand.
void expect_close(const Head& head) {
  const Exact exact(head);
  const bool fp8 = head.problem.fp8;
  const bool f32 = head.problem.dtype == Dtype::f32 && !fp8;
  const double gradients = f32 ? 100 : fp8 ? 20 : 40;
  SCOPED_TRACE(describe(head.problem));
  EXPECT_GT(snr_db(values_of(head.loss), exact.loss), f32 ? 120 : fp8 ? 30 : 50);
  EXPECT_GT(snr_db(values_of(head.lse), exact.lse), f32 ? 120 : fp8 ? 30 : 50);
  EXPECT_GT(snr_db(values_of(head.dx), exact.dx), gradients);
  EXPECT_GT(snr_db(values_of(head.dw), exact.dw), gradients);
}

TEST(LinearCrossEntropy, IsCloseToF64) {
  for (const bool fp8 : {false, true}) {
    for (const LossReduction reduction :
         {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
        LinearCrossEntropyProblem problem = small_problem(fp8);
        problem.reduction = reduction;
        problem.dtype = dtype;
        problem.dw_dtype = dtype;
        const Head head(problem);
        for (std::int64_t i = 0; i < problem.m; i += 11) head.set_target(i, -100);
        head.run();
        expect_close(head);
      }
    }
  }
}

TEST(LinearCrossEntropy, AddsToAnF32WeightGradient) {
  for (const bool fp8 : {false, true}) {
    LinearCrossEntropyProblem problem = small_problem(fp8);
    problem.reduction = LossReduction::sum;
    problem.dw_dtype = Dtype::f32;
    const Head fresh(problem);
    fresh.run();
    problem.accumulate_dw = true;
    const Head added(problem);
    added.run();
    const std::vector<double> from = values_of(fresh.dw), to = values_of(added.dw);
    for (std::size_t i = 0; i < from.size(); ++i) ASSERT_NEAR(to[i], from[i] + 5, 2e-6) << i;
  }
}

// More tokens than 4 * K: several weight gradient products, with and without an f32 dw.
TEST(LinearCrossEntropy, SumsSeveralWeightGradientProducts) {
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    for (const Dtype dw_dtype : {Dtype::bf16, Dtype::f32}) {
      LinearCrossEntropyProblem problem{.m = 1300, .v = 70, .k = 33, .fp8 = true};
      problem.max_chunk_rows = 128;
      problem.wgrad_blocks = blocks;
      problem.dw_dtype = dw_dtype;
      const Head head(problem);
      head.run();
      expect_close(head);
    }
  }
}

TEST(LinearCrossEntropy, IgnoredTokensHaveNoLossAndNoGradient) {
  for (const bool fp8 : {false, true}) {
    LinearCrossEntropyProblem problem = small_problem(fp8);
    problem.reduction = LossReduction::none;
    problem.ignore_index = 7;
    const Head head(problem);
    for (std::int64_t i = 100; i < 260; ++i) head.set_target(i, 7);
    head.run();
    const std::vector<double> dx = values_of(head.dx);
    for (std::int64_t i = 0; i < problem.m; ++i) {
      const bool ignored = head.target(i) == 7;
      EXPECT_EQ(head.loss_at(i) == 0, ignored) << i;
      double largest = 0;
      for (std::int64_t c = 0; c < problem.k; ++c) {
        largest = std::max(largest, std::abs(dx[i * problem.k + c]));
      }
      EXPECT_EQ(largest == 0, ignored) << i;
    }
  }
}

TEST(LinearCrossEntropy, AllIgnoredIsANanMeanAndZeroGradients) {
  for (const bool fp8 : {false, true}) {
    for (const LossReduction reduction : {LossReduction::sum, LossReduction::mean}) {
      LinearCrossEntropyProblem problem = small_problem(fp8);
      problem.reduction = reduction;
      const Head head(problem);
      for (std::int64_t i = 0; i < problem.m; ++i) head.set_target(i, -100);
      head.run();
      if (reduction == LossReduction::mean) {
        EXPECT_TRUE(std::isnan(head.loss_at(0)));
      } else {
        EXPECT_EQ(head.loss_at(0), 0);
      }
      for (const double value : values_of(head.dx)) ASSERT_EQ(value, 0);
      for (const double value : values_of(head.dw)) ASSERT_EQ(value, 0);
    }
  }
}

TEST(LinearCrossEntropy, BackwardGivesTheGradientsOfForward) {
  for (const bool fp8 : {false, true}) {
    const Head forward(small_problem(fp8)), backward(small_problem(fp8));
    forward.run_forward();
    for (const bool with_lse : {false, true}) {
      if (with_lse) copy(forward.lse, backward.lse);
      backward.poison_gradients();
      backward.run_backward(with_lse);
      EXPECT_TRUE(equal(forward.dx, backward.dx));
      EXPECT_TRUE(equal(forward.dw, backward.dw));
    }
  }
}

TEST(LinearCrossEntropy, WeightsQuantizedAheadGiveTheSameBits) {
  LinearCrossEntropyProblem problem = small_problem();
  const Head cast(problem);
  cast.run();
  problem.weights_quantized = true;
  Head given(problem);
  const BothWays weights(given.w, problem.format);
  given.weights = {weights.w, weights.w_t};
  given.run();
  expect_equal_results(cast, given);
}

TEST(LinearCrossEntropy, TargetsOf32BitsGiveTheSameBits) {
  LinearCrossEntropyProblem problem = small_problem();
  const Head wide(problem);
  wide.run();
  problem.target_dtype = Dtype::i32;
  const Head narrow(problem);
  narrow.run();
  expect_equal_results(wide, narrow);
}

// Chunks of 128 tokens and a shorter one; of K = 136, dw is a product of 512 tokens and one of more.
TEST(LinearCrossEntropy, EveryProductLeavesMultiprocessorsFree) {
  const cuda::Pretend h200(cuda::kH200);
  for (const bool fp8 : {false, true}) {
    LinearCrossEntropyProblem problem = small_problem(fp8);
    problem.m = 700;
    problem.max_multiprocessors = 100;
    problem.device = {DeviceType::cuda, 0};
    const LinearCrossEntropyForwardPlan plan = plan_linear_cross_entropy_forward(problem);
    const auto& state = *static_cast<const LinearCrossEntropyState*>(plan.state.get());
    for (const GemmPlan* product : {&state.logits.full, &state.logits.last, &state.dx->full,
                                    &state.dx->last, &*state.dw, &state.more_dw->last}) {
      EXPECT_EQ(product->problem.max_multiprocessors, 100) << describe(product->problem);
    }
  }
}

TEST(LinearCrossEntropy, WritesOnlyWhatIsAskedFor) {
  LinearCrossEntropyProblem problem = small_problem();
  const Head both(problem);
  both.run();
  problem.need_dw = false;
  const Head without_dw(problem);
  without_dw.run();
  EXPECT_TRUE(equal(both.dx, without_dw.dx));
  for (const double value : values_of(without_dw.dw)) ASSERT_TRUE(std::isnan(value));
  problem.need_dw = true;
  problem.need_dx = false;
  const Head without_dx(problem);
  without_dx.run();
  EXPECT_TRUE(equal(both.dw, without_dx.dw));
  for (const double value : values_of(without_dx.dx)) ASSERT_TRUE(std::isnan(value));
  problem.training = false;
  const Head inference(problem);
  inference.run();
  EXPECT_TRUE(equal(both.loss, inference.loss));
  for (const double value : values_of(inference.dw)) ASSERT_TRUE(std::isnan(value));
}

TEST(LinearCrossEntropy, NanInATokenReachesItsLossAndGradient) {
  LinearCrossEntropyProblem problem = small_problem(false);
  problem.reduction = LossReduction::none;
  const Head head(problem);
  store_f32(head.x.data(), 3 * problem.k, problem.dtype, NAN);
  head.run();
  const std::vector<double> dx = values_of(head.dx);
  for (std::int64_t i = 0; i < problem.m; ++i) {
    EXPECT_EQ(std::isnan(head.loss_at(i)), i == 3) << i;
    EXPECT_EQ(std::isnan(dx[i * problem.k]), i == 3) << i;
  }
}

// Every width up to two trees, and beyond: both instruction sets give the same bits, close to f64.
TEST(LinearCrossEntropyRows, SimdIsCloseToTheReference) {
  const Machine machine = this_machine(kCpu, 1);
  if (!machine.avx2) GTEST_SKIP() << "this CPU has no AVX2";
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t cols : {1, 7, 8, 31, 32, 33, 127, 128, 255, 256, 257, 1000, 4097}) {
      const Tensor logits = random_tensor(dtype, 1, cols, 3, 4);
      const LossRowsKernels& avx2 = loss_rows_kernels(dtype, InstructionSet::avx2);
      const ExpSum sum = avx2.sum_row(logits.data(), cols);
      double wanted = 0;
      for (const double value : values_of(logits)) wanted += std::exp(value - sum.largest);
      EXPECT_NEAR(sum.sum / wanted, 1, 1e-6) << cols;
      const Tensor softmax = filled(dtype, {1, cols}, 0);
      std::memcpy(softmax.data(), logits.data(), logits.bytes());
      avx2.softmax_row(softmax.data(), cols, 12, 0.5f);
      const std::vector<double> got = values_of(softmax), given = values_of(logits);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double exact = std::exp(given[i] - 12) / 2;
        EXPECT_NEAR(got[i], exact, exact * (dtype == Dtype::f32 ? 1e-6 : 0.004) + 1e-7) << i;
      }
      if (!machine.avx512) continue;
      const LossRowsKernels& avx512 = loss_rows_kernels(dtype, InstructionSet::avx512);
      EXPECT_EQ(avx512.sum_row(logits.data(), cols).sum, sum.sum) << cols;
      const Tensor again = filled(dtype, {1, cols}, 0);
      std::memcpy(again.data(), logits.data(), logits.bytes());
      avx512.softmax_row(again.data(), cols, 12, 0.5f);
      EXPECT_TRUE(equal(softmax, again)) << cols;
    }
  }
}

TEST(LinearCrossEntropyRows, SimdAndReferenceAgree) {
  const LossRowsProblem rows{203, Dtype::f32, Dtype::i64, -100, LossReduction::sum, kCpu};
  const Head head(small_problem());
  LossTotals totals{300, 0.5f};
  Tensor results[2], losses[2];
  for (int i = 0; i < 2; ++i) {
    results[i] = random_tensor(Dtype::f32, 300, 204, 9, 5);
    losses[i] = Tensor(Dtype::f32, {300});
    LossOfRows step;
    step.logits = make_matrix(results[i].data(), Dtype::f32, 300, 203, 204);
    step.targets = head.targets;
    step.loss = losses[i];
    step.gradient = true;
    step.totals = &totals;
    const LossRowsPlan plan = make_plan(
        loss_rows_implementations(), rows,
        make_request("linear_cross_entropy", "other", "", i == 0 ? "cpu_reference" : "cpu_simd"),
        {});
    run_plan(plan, LossRowsStep(step), {}, nullptr);
  }
  EXPECT_GT(snr_db(values_of(losses[1]), values_of(losses[0])), 130);
  EXPECT_GT(snr_db(values_of(results[1]), values_of(results[0])), 120);
}

}  // namespace
}  // namespace octet::testing
