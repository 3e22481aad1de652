// The layer on a CUDA device passes every gate. The gates copy what they compare to the host.
#include <gtest/gtest.h>

#include "support/gates.hpp"
#include "support/on_cuda.hpp"

namespace octet::testing {
namespace {

constexpr std::int64_t kShapes[][3] = {{1, 33, 130}, {100, 200, 136}, {300, 640, 384}};

TEST(GatedMlpCuda, Fp8PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const auto& shape : kShapes) {
    for (int variant = 0; variant < 4; ++variant) {
      GatedMlpProblem problem{.m = shape[0],
                              .f = shape[1],
                              .k = shape[2],
                              .down = variant != 1,
                              .fp8 = true,
                              .training = variant != 3};
      problem.activation = variant == 2 ? GateActivation::gelu_erf : GateActivation::silu;
      problem.wgrad_blocks = variant == 2 ? WgradBlocks::square : WgradBlocks::rows;
      problem.grad_format = variant == 2 ? Dtype::e5m2 : Dtype::e4m3;
      problem.weights_quantized = variant == 2;
      problem.dw_dtype = variant == 1 ? Dtype::f32 : Dtype::bf16;
      problem.accumulate_dw = variant == 1;
      problem.device = OnCuda::kDevice;
      expect_pass(check_gated_mlp(problem, {}), describe(problem));
    }
  }
}

TEST(GatedMlpCuda, Bf16PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const bool down : {false, true}) {
    GatedMlpProblem problem{.m = 304, .f = 640, .k = 384, .down = down, .device = OnCuda::kDevice};
    expect_pass(check_gated_mlp(problem, {}), describe(problem));
  }
}

}  // namespace
}  // namespace octet::testing
