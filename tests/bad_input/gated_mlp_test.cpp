// What gated_mlp refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kM = 3, kF = 5, kK = 4;

GatedMlpProblem plain_problem() {
  GatedMlpProblem problem{.m = kM, .f = kF, .k = kK};
  return problem;
}

void refused(const std::string& message, const GatedMlpProblem& problem) {
  expect_plan_refused(kInvalid, message, GatedMlpForward{problem});
  expect_plan_refused(kInvalid, message, GatedMlpBackward{problem});
}

TEST(GatedMlpBadInput, RefusesBadProblems) {
  GatedMlpProblem problem = plain_problem();
  problem.f = 0;
  refused("gated_mlp: F must be at least 1, got 0", problem);
  problem = plain_problem();
  problem.activation = static_cast<GateActivation>(0);
  refused("gated_mlp: activation must be silu, gelu_tanh, gelu_erf or relu_squared, got 0",
          problem);
  problem = plain_problem();
  problem.weights_quantized = true;
  refused("gated_mlp: weights_quantized needs fp8 = true", problem);
  problem = plain_problem();
  problem.unfused = true;
  refused("gated_mlp: unfused needs fp8 = true", problem);
  problem = plain_problem();
  problem.granularity = Granularity::tensorwise;
  refused("gated_mlp: granularity needs fp8 = true, got tensorwise", problem);
  problem.fp8 = true;
  problem.wgrad_blocks = WgradBlocks::square;
  refused(
      "gated_mlp: wgrad_blocks = square needs granularity blockwise or mxfp8, got tensorwise, "
      "which has no blocks of 128; leave it at rows",
      problem);
  problem = plain_problem();
  problem.fp8 = true;
  problem.amax_floor = 1e30f;
  refused(
      "gated_mlp: amax_floor must be at most 1e+18, so that products of two scales stay finite, "
      "got "
      "1e+30",
      problem);
  problem = plain_problem();
  problem.max_multiprocessors = -1;
  refused("gated_mlp: max_multiprocessors must be at least 0, got -1", problem);
}

struct ForwardCall {
  ForwardCall() {
    args.x = arena.matrix(Dtype::bf16, kM, kK);
    args.w_gate_up = arena.matrix(Dtype::bf16, 2 * kF, kK);
    args.h = arena.matrix(Dtype::bf16, kM, kF);
    args.saved.gate_up = arena.matrix(Dtype::bf16, kM, 2 * kF);
    workspace = arena.workspace(plan_gated_mlp_forward(pass.problem).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  }

  Arena arena{1 << 16};
  GatedMlpForward pass{plain_problem()};
  GatedMlpForwardArgs args;
  Workspace workspace;
};

TEST(GatedMlpBadInput, TheCallTheTestsSpoilIsRight) {
  ForwardCall call;
  EXPECT_NO_THROW(run(plan_gated_mlp_forward(call.pass.problem), call.args, call.workspace));
}

TEST(GatedMlpBadInput, RefusesBadTensors) {
  ForwardCall absent;
  absent.args.h = {};
  absent.refused("gated_mlp_forward: h must have rank 2, [M, F], got rank 0");
  ForwardCall half;
  half.args.w_gate_up.shape[0] = kF;
  half.refused("gated_mlp_forward: w_gate_up must be [2F, K] = [10, 4], got [5, 4]");
  ForwardCall unsaved;
  unsaved.args.saved.gate_up.data = nullptr;
  unsaved.refused("gated_mlp_forward: saved.gate_up has a null pointer");
  ForwardCall overlap;
  overlap.args.h.data = overlap.args.x.data;
  overlap.refused("gated_mlp_forward: output h overlaps x: their memory must be apart");
}

}  // namespace
}  // namespace octet::bad_input
