// What linear_cross_entropy refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kM = 3, kV = 5, kK = 4;

LinearCrossEntropyProblem head_problem() {
  LinearCrossEntropyProblem problem{.m = kM, .v = kV, .k = kK};
  return problem;
}

void refused(const std::string& message, const auto& change, ErrorCode code = kInvalid) {
  LinearCrossEntropyProblem problem = head_problem();
  change(problem);
  expect_plan_refused(code, message, LinearCrossEntropyForward{problem});
  expect_plan_refused(code, message, LinearCrossEntropyBackward{problem});
}

TEST(LinearCrossEntropyBadInput, RefusesBadProblems) {
  refused("linear_cross_entropy: M must be at least 1, got 0", [](auto& p) { p.m = 0; });
  refused("linear_cross_entropy: V must be at least 1, got -1", [](auto& p) { p.v = -1; });
  refused("linear_cross_entropy: K must be at least 1, got 0", [](auto& p) { p.k = 0; });
  refused("linear_cross_entropy: dtype must be f32, f16 or bf16, got e4m3",
          [](auto& p) { p.dtype = Dtype::e4m3; });
  refused("linear_cross_entropy: target_dtype must be i64 or i32, got f32",
          [](auto& p) { p.target_dtype = Dtype::f32; });
  refused("linear_cross_entropy: reduction must be none (0), sum (1) or mean (2), got 3",
          [](auto& p) { p.reduction = static_cast<LossReduction>(3); });
  refused("linear_cross_entropy: weights_quantized needs fp8 = true",
          [](auto& p) { p.weights_quantized = true; });
  refused("linear_cross_entropy: max_chunk_rows must be 0 or a multiple of 128, got 100",
          [](auto& p) { p.max_chunk_rows = 100; });
  refused("linear_cross_entropy: max_chunk_rows must be 0 or a multiple of 128, got -128",
          [](auto& p) { p.max_chunk_rows = -128; });
  refused("linear_cross_entropy: max_multiprocessors must be at least 0, got -1",
          [](auto& p) { p.max_multiprocessors = -1; });
  refused(
      "linear_cross_entropy: accumulate_dw needs an f32 dw, got bf16",
      [](auto& p) { p.accumulate_dw = true; }, ErrorCode::unsupported);
  LinearCrossEntropyProblem untrained = head_problem();
  untrained.training = false;
  expect_plan_refused(kInvalid,
                      "linear_cross_entropy: backward needs training = true and need_dx or need_dw",
                      LinearCrossEntropyBackward{untrained});
}

template <class Pass, class Args>
struct HeadCall {
  explicit HeadCall(const LinearCrossEntropyProblem& problem = head_problem()) : pass{problem} {
    args.x = arena.matrix(Dtype::bf16, kM, kK);
    args.w = arena.matrix(Dtype::bf16, kV, kK);
    args.targets = arena.tensor(Dtype::i64, {kM});
    for (std::int64_t i = 0; i < kM; ++i) target(i) = i;
    const std::int64_t losses = problem.reduction == LossReduction::none ? kM : 1;
    args.loss_grad = arena.tensor(Dtype::f32, {losses});
    if constexpr (requires { args.loss; }) args.loss = arena.tensor(Dtype::f32, {losses});
    args.lse = arena.tensor(Dtype::f32, {kM});
    args.dx = arena.matrix(Dtype::bf16, kM, kK);
    args.dw = arena.matrix(Dtype::bf16, kV, kK);
    workspace = arena.workspace(cpp_plan(pass).workspace_bytes);
  }
  std::int64_t& target(std::int64_t i) { return static_cast<std::int64_t*>(args.targets.data)[i]; }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  }

  Arena arena{1 << 16};
  Pass pass;
  Args args;
  Workspace workspace;
};
using ForwardCall = HeadCall<LinearCrossEntropyForward, LinearCrossEntropyForwardArgs>;
using BackwardCall = HeadCall<LinearCrossEntropyBackward, LinearCrossEntropyBackwardArgs>;

TEST(LinearCrossEntropyBadInput, TheCallsTheTestsSpoilAreRight) {
  ForwardCall forward;
  EXPECT_NO_THROW(run(cpp_plan(forward.pass), forward.args, forward.workspace));
  BackwardCall backward;
  EXPECT_NO_THROW(run(cpp_plan(backward.pass), backward.args, backward.workspace));
}

TEST(LinearCrossEntropyBadInput, RefusesBadTensors) {
  ForwardCall words;
  words.args.w.shape[0] = 4;
  words.refused("linear_cross_entropy_forward: w must be [V, K] = [5, 4], got [4, 4]");
  ForwardCall narrow;
  narrow.args.targets.dtype = Dtype::i32;
  narrow.refused("linear_cross_entropy_forward: targets must be i64, got i32");
  ForwardCall no_loss;
  no_loss.args.loss = {};
  no_loss.refused("linear_cross_entropy_forward: loss must have rank 1, [1], got rank 0");
  ForwardCall overlap;
  overlap.args.dx.data = overlap.args.x.data;
  overlap.refused("linear_cross_entropy_forward: output dx overlaps x: their memory must be apart");
  ForwardCall small;
  small.workspace.bytes -= 1;
  small.refused(text("linear_cross_entropy_forward: workspace must have ",
                     small.workspace.bytes + 1, " bytes, got ", small.workspace.bytes));
  LinearCrossEntropyProblem per_token = head_problem();
  per_token.reduction = LossReduction::none;
  BackwardCall one_grad(per_token);
  one_grad.args.loss_grad.shape[0] = 1;
  one_grad.refused("linear_cross_entropy_backward: loss_grad must be [M] = [3], got [1]");
}

TEST(LinearCrossEntropyBadInput, RefusesTargetsThatAreNoWords) {
  ForwardCall above;
  above.target(1) = 5;
  above.refused(
      "linear_cross_entropy_forward: targets must be in [0, V) = [0, 5) or ignore_index = -100, "
      "token 1 has 5");
  BackwardCall below;
  below.target(2) = -1;
  below.refused(
      "linear_cross_entropy_backward: targets must be in [0, V) = [0, 5) or ignore_index = -100, "
      "token 2 has -1");
}

}  // namespace
}  // namespace octet::bad_input
