#include "core/checks.hpp"
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

void check(const RopeProblem& problem, const RopeArgs& args) {
  const RotatedHeads heads = rotated_heads(problem);
  CallTensors tensors;
  const auto check_side = [&](const ReadTensor& in, const WrittenTensor& out, std::int64_t count,
                              std::string_view wanted) {
    check_heads({kOp, in.name}, in.view, heads, count, wanted);
    check_heads({kOp, out.name}, out.view, heads, count, wanted);
    tensors.read.push_back(in);
    tensors.written.push_back(out);
  };
  check_side({"q", args.q, "q_out"}, {"q_out", args.q_out}, heads.q_heads,
             "[batch, seq, q_heads, head_dim]");
  if (problem.k_heads > 0) {
    check_side({"k", args.k, "k_out"}, {"k_out", args.k_out}, heads.k_heads,
               "[batch, seq, k_heads, head_dim]");
  }
  check_rotation(kOp, heads, args.rotation);
  add_rotation(heads.rotation, args.rotation, tensors);
  check_written_apart(kOp, tensors);
}

RopePlan plan_rope(const RopeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(rope_implementations(), problem,
                   make_request(kOp, "other", describe(problem), options.backend), options);
}

void run(const RopePlan& plan, const RopeArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  if (plan.problem.batch * plan.problem.seq == 0) return;
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
