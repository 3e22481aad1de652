// The head on a CUDA device: known results, f64, and what must not change a bit.
#include <gtest/gtest.h>

#include "ops/linear_cross_entropy/head.hpp"
#include "support/cuda_stream.hpp"
#include "support/gates.hpp"

namespace octet::testing {
namespace {

LinearCrossEntropyProblem cuda_problem(bool fp8) {
  LinearCrossEntropyProblem problem = small_problem(fp8);
  problem.v = 208;  // cuBLASLt takes what 16 bytes divide
  problem.device = OnCuda::kDevice;
  return problem;
}

void expect_close(const Head& head) {
  const Exact exact(head);
  const bool fp8 = head.problem.fp8;
  SCOPED_TRACE(describe(head.problem));
  EXPECT_GT(snr_db(values_of(head.loss), exact.loss), fp8 ? 30 : 50);
  EXPECT_GT(snr_db(values_of(head.lse), exact.lse), fp8 ? 30 : 50);
  EXPECT_GT(snr_db(values_of(head.dx), exact.dx), fp8 ? 20 : 40);
  EXPECT_GT(snr_db(values_of(head.dw), exact.dw), fp8 ? 20 : 40);
}

TEST(LinearCrossEntropyCuda, PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const bool fp8 : {false, true}) {
    for (const LossReduction reduction :
         {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      LinearCrossEntropyProblem problem = cuda_problem(fp8);
      problem.reduction = reduction;
      problem.wgrad_blocks =
          reduction == LossReduction::sum ? WgradBlocks::square : WgradBlocks::rows;
      problem.weights_quantized = fp8 && reduction == LossReduction::none;
      problem.dw_dtype = reduction == LossReduction::sum ? Dtype::f32 : Dtype::bf16;
      problem.accumulate_dw = reduction == LossReduction::sum;
      expect_pass(check_linear_cross_entropy(problem, {}), describe(problem));
    }
  }
}

TEST(LinearCrossEntropyCuda, UniformLogitsAreExact) {
  OCTET_NEEDS_HOPPER();
  LinearCrossEntropyProblem problem{.m = 200, .v = 128, .k = 72, .device = OnCuda::kDevice};
  problem.reduction = LossReduction::sum;
  problem.dw_dtype = Dtype::f32;
  problem.accumulate_dw = true;
  problem.max_chunk_rows = 128;
  const Head head(problem);
  std::memset(head.w.data(), 0, head.w.bytes());
  for (std::int64_t i = 0; i < 200 * 72; ++i) {
    store_f32(head.x.data(), i, Dtype::bf16, static_cast<float>((i * 37) % 9 - 4));
  }
  head.run_forward();
  EXPECT_NEAR(head.loss_at(0), 200 * std::log(128.0), 1e-3);
  const std::vector<double> x = values_of(head.x), dw = values_of(head.dw);
  std::vector<double> wanted(128 * 72, 5);
  for (std::int64_t i = 0; i < 200; ++i) {
    for (std::int64_t v = 0; v < 128; ++v) {
      for (std::int64_t c = 0; c < 72; ++c) {
        wanted[v * 72 + c] += (1 / 128.0 - (v == head.target(i) ? 1 : 0)) * x[i * 72 + c];
      }
    }
  }
  for (std::size_t i = 0; i < dw.size(); ++i) ASSERT_EQ(dw[i], wanted[i]) << i;
  for (const double value : values_of(head.dx)) ASSERT_EQ(value, 0);
}

TEST(LinearCrossEntropyCuda, IsCloseToF64) {
  OCTET_NEEDS_HOPPER();
  for (const bool fp8 : {false, true}) {
    for (const LossReduction reduction :
         {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
        LinearCrossEntropyProblem problem = cuda_problem(fp8);
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

// Every kind of tail of a row: one vector, one round of a block, several, and a large vocabulary.
TEST(LinearCrossEntropyCuda, TakesRowsOfAnyLength) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t v : {1, 7, 8, 9, 8191, 8192, 8193, 50257, 128256}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      LinearCrossEntropyProblem problem{.m = 9, .v = v, .k = 40, .dtype = dtype, .fp8 = true};
      problem.dw_dtype = Dtype::f32;
      problem.device = OnCuda::kDevice;
      const Head head(problem);
      head.run();
      const Exact exact(head);
      SCOPED_TRACE(describe(problem));
      EXPECT_NEAR(head.loss_at(0), exact.loss[0], 0.05 + exact.loss[0] / 30);
      if (v < 7) continue;  // one word: no gradient
      EXPECT_GT(snr_db(values_of(head.dx), exact.dx), 18);
      EXPECT_GT(snr_db(values_of(head.dw), exact.dw), 18);
    }
  }
}

TEST(LinearCrossEntropyCuda, ChunksAndTwoPassesChangeNoBit) {
  OCTET_NEEDS_HOPPER();
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    LinearCrossEntropyProblem problem = cuda_problem(true);
    problem.wgrad_blocks = blocks;
    const Head cut(problem);
    cut.run();
    const Head again(problem);
    again.run();
    expect_equal_results(cut, again);
    problem.max_chunk_rows = 0;
    const Head whole(problem);
    whole.run();
    expect_equal_results(cut, whole);
    const Head backward(problem);
    copy(whole.lse, backward.lse);
    for (const bool with_lse : {false, true}) {
      backward.poison_gradients();
      backward.run_backward(with_lse);
      EXPECT_TRUE(equal(whole.dx, backward.dx));
      EXPECT_TRUE(equal(whole.dw, backward.dw));
    }
  }
}

TEST(LinearCrossEntropyCuda, SumsSeveralWeightGradientProducts) {
  OCTET_NEEDS_HOPPER();
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    for (const Dtype dw_dtype : {Dtype::bf16, Dtype::f32}) {
      LinearCrossEntropyProblem problem{.m = 1300, .v = 70, .k = 33, .fp8 = true};
      problem.max_chunk_rows = 128;
      problem.wgrad_blocks = blocks;
      problem.dw_dtype = dw_dtype;
      problem.device = OnCuda::kDevice;
      const Head head(problem);
      head.run();
      expect_close(head);
    }
  }
}

TEST(LinearCrossEntropyCuda, AllIgnoredIsANanMeanAndZeroGradients) {
  OCTET_NEEDS_HOPPER();
  for (const bool fp8 : {false, true}) {
    const LinearCrossEntropyProblem problem = cuda_problem(fp8);
    const Head head(problem);
    for (std::int64_t i = 0; i < problem.m; ++i) head.set_target(i, -100);
    head.run();
    EXPECT_TRUE(std::isnan(head.loss_at(0)));
    for (const double value : values_of(head.dx)) ASSERT_EQ(value, 0);
    for (const double value : values_of(head.dw)) ASSERT_EQ(value, 0);
  }
}

TEST(LinearCrossEntropyCuda, ATargetThatIsNoWordGivesNan) {
  OCTET_NEEDS_HOPPER();
  LinearCrossEntropyProblem problem = cuda_problem(false);
  problem.reduction = LossReduction::none;
  const Head head(problem);
  head.set_target(3, problem.v);
  head.set_target(200, -1);
  head.run();
  const std::vector<double> dx = values_of(head.dx);
  for (std::int64_t i = 0; i < problem.m; ++i) {
    EXPECT_EQ(std::isnan(head.loss_at(i)), i == 3 || i == 200) << i;
    EXPECT_EQ(std::isnan(dx[i * problem.k]), i == 3 || i == 200) << i;
  }
}

// Nothing allocates or waits: a graph of the call gives its bits, also with new targets.
TEST(LinearCrossEntropyCuda, CanBeCaptured) {
  OCTET_NEEDS_HOPPER();
  const LinearCrossEntropyProblem problem = cuda_problem(true);
  const Head wanted(problem), got(problem);
  OnCuda cuda;
  LinearCrossEntropyForwardArgs args = got.forward_args();
  const LinearCrossEntropyForwardArgs host = args;
  using Args = LinearCrossEntropyForwardArgs;
  for (TensorView Args::*const field : {&Args::x, &Args::w, &Args::targets, &Args::loss_grad,
                                        &Args::loss, &Args::lse, &Args::dx, &Args::dw}) {
    args.*field = cuda.copy_in(host.*field);
  }
  const LinearCrossEntropyForwardPlan plan = plan_linear_cross_entropy_forward(problem);
  const Buffer workspace(plan.workspace_bytes, problem.device);
  const Stream stream;
  const auto step = [&](void* handle) {
    run(plan, args, {workspace.data(), workspace.bytes()}, handle);
  };
  step(stream.handle());  // the first call may load libraries
  stream.synchronize();
  const Graph graph(stream, step);
  for (std::int64_t i = 0; i < problem.m; i += 3) {
    wanted.set_target(i, -100);
    got.set_target(i, -100);
  }
  copy(got.targets, args.targets);
  graph.launch(stream);
  stream.synchronize();
  for (TensorView Args::*const field : {&Args::loss, &Args::lse, &Args::dx, &Args::dw}) {
    OnCuda::copy_out(args.*field, host.*field);
  }
  wanted.run();
  expect_equal_results(wanted, got);
}

}  // namespace
}  // namespace octet::testing
