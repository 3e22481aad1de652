#include "ops/rms_norm_rope/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "rms_norm_rope";

Request request_for(const RmsNormRopeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_request(kOp, "other", describe(problem), options.backend);
}

}  // namespace

std::span<const RmsNormRopeForwardImplementation> rms_norm_rope_forward_implementations() {
  static const std::array<RmsNormRopeForwardImplementation, 3> list{
      kRmsNormRopeForwardCudaSm90Heads, kRmsNormRopeForwardCpuSimd,
      kRmsNormRopeForwardCpuReference};
  return list;
}

std::span<const RmsNormRopeBackwardImplementation> rms_norm_rope_backward_implementations() {
  static const std::array<RmsNormRopeBackwardImplementation, 3> list{
      kRmsNormRopeBackwardCudaSm90Heads, kRmsNormRopeBackwardCpuSimd,
      kRmsNormRopeBackwardCpuReference};
  return list;
}

std::string describe(const RmsNormRopeProblem& problem) {
  std::string result =
      text("rms-norm-rope", describe_shape(rotated_heads(problem)), " --norm ",
           problem.norm == NormScope::head ? "head" : "row", " --dtype ", name(problem.dtype));
  if (problem.weight_dtype != Dtype::bf16) result += text(" --weight ", name(problem.weight_dtype));
  if (problem.eps != 1e-6f) result += " --eps " + exact_text(problem.eps);
  if (problem.one_plus_weight) result += " --one-plus-weight";
  if (!problem.training) result += " --inference";
  if (problem.dg_dtype != Dtype::f32) result += text(" --dg ", name(problem.dg_dtype));
  return result + describe_rotation(problem.rotation) + " --device " + name(problem.device);
}

void check(const RmsNormRopeProblem& problem) {
  check_rotated_heads(kOp, rotated_heads(problem));
  if (problem.norm != NormScope::row && problem.norm != NormScope::head) {
    refuse_argument(kOp, ": norm must be row or head, got ",
                    static_cast<std::int32_t>(problem.norm));
  }
  check_float({kOp, "weight_dtype"}, problem.weight_dtype);
  check_float({kOp, "dg_dtype"}, problem.dg_dtype);
  check_eps(kOp, problem.eps);
}

RmsNormRopeForwardPlan plan_rms_norm_rope_forward(const RmsNormRopeProblem& problem,
                                                  const PlanOptions& options) {
  const Request request = request_for(problem, options);
  return make_plan<ForwardPass>(rms_norm_rope_forward_implementations(), problem, request, options);
}

RmsNormRopeBackwardPlan plan_rms_norm_rope_backward(const RmsNormRopeProblem& problem,
                                                    const PlanOptions& options) {
  const Request request = request_for(problem, options);
  return make_plan<BackwardPass>(rms_norm_rope_backward_implementations(), problem, request,
                                 options);
}

void run(const RmsNormRopeForwardPlan& plan, const RmsNormRopeForwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("rms_norm_rope_forward", plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

void run(const RmsNormRopeBackwardPlan& plan, const RmsNormRopeBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("rms_norm_rope_backward", plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
