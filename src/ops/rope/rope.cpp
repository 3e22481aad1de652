#include "ops/rope/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "rope";

Request request_of(const RopeProblem& problem, const PlanOptions& options) {
  return make_request(kOp, "other", describe(problem), options.backend);
}

// The names of the tensors of a pass in messages.
struct Names {
  std::string_view q, k, q_out, k_out;
};

// Checks the tensors and the workspace of a call.
void check(const RopeProblem& problem, const Names& names, const RotateArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const RotatedHeads heads = rotated_heads(problem);
  const TensorForm q = heads.form(heads.q_heads, "[batch, seq, q_heads, head_dim]");
  const TensorForm k = heads.form(heads.k_heads, "[batch, seq, k_heads, head_dim]");
  Call call(kOp, problem.device);
  call.reads(names.q, args.q, q, names.q_out);
  call.writes(names.q_out, args.q_out, q);
  if (problem.k_heads > 0) {
    call.reads(names.k, args.k, k, names.k_out);
    call.writes(names.k_out, args.k_out, k);
  }
  read_rotation(call, heads, args.rotation);
  call.check_apart(workspace_bytes, workspace);
}

template <class Pass>
void run_checked(const Plan<RopeProblem, Pass>& plan, const Names& names, const RotateArgs& args,
                 const Workspace& workspace, void* stream) {
  check(plan.problem, names, args, plan.workspace_bytes, workspace);
  if (plan.problem.batch * plan.problem.seq == 0) return;
  run_plan(plan, args, workspace, stream);
}

}  // namespace

std::span<const RopeImplementation> rope_implementations() {
  static const std::array<RopeImplementation, 3> list{kRopeCudaSm90Heads, kRopeCpuSimd,
                                                      kRopeCpuReference};
  return list;
}

std::string describe(const RopeProblem& problem) {
  return text("rope", describe_shape(rotated_heads(problem)), " --dtype ", name(problem.dtype),
              describe_rotation(problem.rotation), " --device ", name(problem.device));
}

void check(const RopeProblem& problem) { check_rotated_heads(kOp, rotated_heads(problem)); }

RopeForwardPlan plan_rope_forward(const RopeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(rope_implementations(), problem, request_of(problem, options),
                                options);
}

RopeBackwardPlan plan_rope_backward(const RopeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan<BackwardPass>(rope_implementations(), problem, request_of(problem, options),
                                 options);
}

void run(const RopeForwardPlan& plan, const RopeForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rope_forward", plan.state.get());
  run_checked(plan, {"q", "k", "q_out", "k_out"},
              {args.q, args.k, args.q_out, args.k_out, args.rotation, false}, workspace, stream);
}

void run(const RopeBackwardPlan& plan, const RopeBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rope_backward", plan.state.get());
  run_checked(plan, {"dq_out", "dk_out", "dq", "dk"},
              {args.dq_out, args.dk_out, args.dq, args.dk, args.rotation, true}, workspace, stream);
}

}  // namespace octet
