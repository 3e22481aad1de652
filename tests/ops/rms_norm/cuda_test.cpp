// rms_norm on a CUDA device: the gates, and the bits of the CPU in y, sum, rstd, dx and dresidual.
#include "support/gates.hpp"
#include "core/message.hpp"
#include "ops/rms_norm/case.hpp"
#include "support/on_cuda.hpp"

#include <random>

namespace octet::testing {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

RmsNormProblem problem_of(std::int64_t rows, std::int64_t cols) {
  RmsNormProblem problem{.rows = rows, .cols = cols};
  return problem;
}

void expect_pass(RmsNormProblem problem, const std::string& backend = "") {
  problem.device = OnCuda::kDevice;
  DataOptions options;
  options.backend = backend;
  expect_pass(check_rms_norm(problem, options), describe(problem));
}

TEST(RmsNormCuda, PassesTheGatesOnEveryHiddenSize) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t cols : {33, 128, 513, 4096, 5120, 7168, 16384}) {
    for (const std::int64_t rows : {1, 511, 8192}) {
      RmsNormProblem problem = problem_of(rows, cols);
      problem.residual = rows == 511;
      expect_pass(problem);
    }
  }
}

TEST(RmsNormCuda, PassesTheGatesWithFp8Outputs) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t rows : {1, 130, 2048}) {
    for (const std::int64_t cols : {333, 4096}) {
      RmsNormProblem problem = problem_of(rows, cols);
      problem.residual = rows == 130;
      problem.fp8.emplace();
      expect_pass(problem);
      expect_pass(problem, "unfused");
      problem.fp8->format = Dtype::e5m2;
      problem.fp8->block = kBlock128x128;
      problem.fp8->transposed_block.reset();
      problem.fp8->pow2_scales = true;
      expect_pass(problem);
    }
  }
}

// Runs the call of `host` on the device and copies its outputs back.
void run_on_device(const RmsNormCase& host, bool with_dsum) {
  RmsNormProblem problem = host.problem;
  problem.device = OnCuda::kDevice;
  OnCuda device;
  RmsNormForwardArgs forward = host.forward_args();
  RmsNormBackwardArgs backward = host.backward_args(with_dsum);
  for (TensorView* view :
       {&forward.x, &forward.residual, &forward.g, &forward.y, &forward.sum, &forward.rstd,
        &backward.dy, &backward.dsum, &backward.dx, &backward.dresidual, &backward.dg}) {
    *view = device.copy_in(*view);
  }
  backward.h = problem.residual ? forward.sum : forward.x;
  backward.g = forward.g;
  backward.rstd = forward.rstd;
  const RmsNormForwardPlan forward_plan = plan_rms_norm_forward(problem);
  const RmsNormBackwardPlan backward_plan = plan_rms_norm_backward(problem);
  const Buffer workspace(std::max(forward_plan.workspace_bytes, backward_plan.workspace_bytes),
                         OnCuda::kDevice);
  run(forward_plan, forward, {workspace.data(), workspace.bytes()});
  run(backward_plan, backward, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  OnCuda::copy_out(forward.y, host.y.view());
  OnCuda::copy_out(forward.sum, host.sum.view());
  OnCuda::copy_out(forward.rstd, host.rstd.view());
  OnCuda::copy_out(backward.dx, host.dx.view());
  if (problem.residual) OnCuda::copy_out(backward.dresidual, host.dresidual.view());
}

// Few rows in one half of the problems, and in the other as many as fill the rings of all blocks
// several times.
TEST(RmsNormCuda, HasTheBitsOfTheCpu) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kCols[] = {1,   2,   7,    31,   33,   64,   100,  128,
                                    257, 513, 1000, 2048, 4096, 5120, 7168, 16384};
  for (std::uint64_t seed = 0; seed < 192; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t most_rows = seed < 96 ? 150 : 3000;
    RmsNormProblem problem =
        problem_of(1 + static_cast<std::int64_t>(random() % most_rows), kCols[seed % 16]);
    problem.dtype = kDtypes[random() % 3];
    problem.weight_dtype = kDtypes[random() % 3];
    problem.residual = random() % 2 == 0;
    problem.one_plus_weight = random() % 2 == 0;
    const auto gap = static_cast<std::int64_t>(seed % 3 == 0 ? 5 : 0);
    const RmsNormCase wanted(problem, gap);
    const RmsNormCase given(problem, gap);
    const bool zeros = seed % 8 == 7;  // signs of zeros must be right, too
    for (const PitchedTensor* tensor : wanted.inputs()) {
      tensor->fill([&] {
        if (zeros) return random() % 2 == 0 ? 0.0f : -0.0f;
        return std::normal_distribution<float>()(random);
      });
    }
    given.copy_inputs(wanted);
    wanted.run_forward("", 0);
    wanted.run_backward("", 0, seed % 2 == 0);
    run_on_device(given, seed % 2 == 0);
    std::memcpy(given.dg.data(), wanted.dg.data(), wanted.dg.bytes());  // summed in another order
    given.expect_same_outputs(wanted, text("seed ", seed, ": ", describe(problem)));
    if (HasFailure()) return;
  }
}

TEST(RmsNormCuda, ClearsDgWhereThereAreNoRows) {
  OCTET_NEEDS_HOPPER();
  const RmsNormCase host(problem_of(0, 300), 0);
  host.g.fill([] { return 1.0f; });
  OnCuda device;
  RmsNormBackwardArgs args = host.backward_args(false);
  args.g = device.copy_in(args.g);
  args.dg = device.copy_in(args.dg);
  RmsNormProblem problem = host.problem;
  problem.device = OnCuda::kDevice;
  const RmsNormBackwardPlan plan = plan_rms_norm_backward(problem);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  OnCuda::copy_out(args.dg, host.dg.view());
  for (std::int64_t c = 0; c < 300; ++c) EXPECT_EQ(host.dg.at(c), 0) << c;
}

}  // namespace
}  // namespace octet::testing
