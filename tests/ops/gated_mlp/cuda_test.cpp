// The layer on a CUDA device passes every gate, which copy to the host what they judge.
#include <gtest/gtest.h>

#include "check/gates.hpp"
#include "core/message.hpp"
#include "support/on_cuda.hpp"

namespace octet::testing {
namespace {

void expect_pass(const GatedMlpProblem& problem) {
  const GateReport report = check_gated_mlp(problem, {});
  for (const GateResult& gate : report.results) {
    EXPECT_TRUE(gate.pass) << describe(problem) << "\n"
                           << text(gate.gate, " ", gate.tensor, ": ", gate.value, " (", gate.bound,
                                   ")");
  }
  EXPECT_FALSE(report.results.empty());
}

constexpr std::int64_t kShapes[][3] = {{1, 33, 130}, {100, 200, 136}, {300, 640, 384}};

TEST(GatedMlpCuda, Fp8PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const auto& shape : kShapes) {
    for (int variant = 0; variant < 4; ++variant) {
      GatedMlpProblem problem;
      problem.m = shape[0];
      problem.f = shape[1];
      problem.k = shape[2];
      problem.fp8 = true;
      problem.down = variant != 1;
      problem.training = variant != 3;
      problem.activation = variant == 2 ? GateActivation::gelu_erf : GateActivation::silu;
      problem.wgrad_blocks = variant == 2 ? WgradBlocks::square : WgradBlocks::rows;
      problem.grad_format = variant == 2 ? Dtype::e5m2 : Dtype::e4m3;
      problem.weights_quantized = variant == 2;
      problem.dw = variant == 1 ? Dtype::f32 : Dtype::bf16;
      problem.accumulate_dw = variant == 1;
      problem.device = OnCuda::kDevice;
      expect_pass(problem);
    }
  }
}

TEST(GatedMlpCuda, Bf16PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const bool down : {false, true}) {
    GatedMlpProblem problem;
    problem.m = 304;
    problem.f = 640;
    problem.k = 384;
    problem.down = down;
    problem.device = OnCuda::kDevice;
    expect_pass(problem);
  }
}

}  // namespace
}  // namespace octet::testing
