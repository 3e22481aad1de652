#include "ops/rope/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "rope";

}  // namespace

std::span<const RopeImplementation> rope_implementations() {
  static const std::array<RopeImplementation, 3> list{kRopeCudaSm90Heads, kRopeCpuSimd,
                                                      kRopeCpuReference};
  return list;
}

std::string describe(const RopeProblem& problem) {
  return text("rope", describe_shape(rotated_heads(problem)), " --dtype ", name(problem.dtype),
              describe_rotation(problem.rotation), problem.inverse ? " --inverse" : "",
              " --device ", name(problem.device));
}

void check(const RopeProblem& problem) { check_rotated_heads(kOp, rotated_heads(problem)); }

void check(const RopeProblem& problem, const RopeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  const RotatedHeads heads = rotated_heads(problem);
  const TensorForm q = heads.form(heads.q_heads, "[batch, seq, q_heads, head_dim]");
  const TensorForm k = heads.form(heads.k_heads, "[batch, seq, k_heads, head_dim]");
  Call call(kOp, problem.device);
  call.reads("q", args.q, q, "q_out");
  call.writes("q_out", args.q_out, q);
  if (problem.k_heads > 0) {
    call.reads("k", args.k, k, "k_out");
    call.writes("k_out", args.k_out, k);
  }
  read_rotation(call, heads, args.rotation);
  call.check_apart(workspace_bytes, workspace);
}

RopePlan plan_rope(const RopeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(rope_implementations(), problem,
                   make_request(kOp, "other", describe(problem), options.backend), options);
}

void run(const RopePlan& plan, const RopeArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  if (plan.problem.batch * plan.problem.seq == 0) return;
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
