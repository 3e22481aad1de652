#include "core/call.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/rms_norm/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "rms_norm";

Request request_of(const RmsNormProblem& problem, const PlanOptions& options) {
  return make_request(kOp, problem.fp8 ? "fp8" : "other", describe(problem), options.backend);
}

// The vectors and matrices of a call.
struct Forms {
  TensorForm rows, weight, rstd, dg;

  explicit Forms(const RmsNormProblem& problem)
      : rows(problem.dtype, {problem.rows, problem.cols}, "[rows, cols]"),
        weight(problem.weight_dtype, {problem.cols}, "[cols]"),
        rstd(Dtype::f32, {problem.rows}, "[rows]"),
        dg(problem.dg_dtype, {problem.cols}, "[cols]") {}
};

}  // namespace

std::span<const RmsNormForwardImplementation> rms_norm_forward_implementations() {
  static const std::array<RmsNormForwardImplementation, 6> list{
      kRmsNormForwardCudaSm90Tile, kRmsNormForwardCudaSm90Rows, kRmsNormForwardCudaSm90RowCast,
      kRmsNormForwardCpuSimd,      kRmsNormForwardUnfused,      kRmsNormForwardCpuReference};
  return list;
}

std::span<const RmsNormBackwardImplementation> rms_norm_backward_implementations() {
  static const std::array<RmsNormBackwardImplementation, 3> list{
      kRmsNormBackwardCudaSm90Rows, kRmsNormBackwardCpuSimd, kRmsNormBackwardCpuReference};
  return list;
}

std::string describe(const RmsNormProblem& problem) {
  std::string result = text("rms-norm --shape ", problem.rows, "x", problem.cols, " --dtype ",
                            name(problem.dtype), " --weight ", name(problem.weight_dtype));
  if (problem.eps != 1e-6f) result += " --eps " + exact_text(problem.eps);
  if (problem.residual) result += " --residual";
  if (problem.one_plus_weight) result += " --one-plus-weight";
  if (!problem.training) result += " --inference";
  if (problem.dg_dtype != Dtype::f32) result += text(" --dg ", name(problem.dg_dtype));
  if (problem.fp8) result += describe(*problem.fp8);
  return result + " --device " + name(problem.device);
}

void check(const RmsNormProblem& problem) {
  check_count(kOp, "rows", problem.rows);
  if (problem.fp8) check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "dtype"}, problem.dtype);
  check_float({kOp, "weight_dtype"}, problem.weight_dtype);
  check_float({kOp, "dg_dtype"}, problem.dg_dtype);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_eps(kOp, problem.eps);
  if (problem.fp8) check_fp8_output(kOp, *problem.fp8);
  check_device(kOp, problem.device);
}

RmsNormForwardArgs check(const RmsNormProblem& problem, RmsNormForwardArgs args,
                         std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("x", args.x, forms.rows);
  call.reads_if(problem.residual, "residual", args.residual, forms.rows);
  call.reads("g", args.g, forms.weight);
  write_fp8_copies(call, problem.fp8, args.fp8, problem.rows, problem.cols);
  call.writes_if(!problem.fp8, "y", args.y, forms.rows);
  call.writes_if(problem.residual, "sum", args.sum, forms.rows);
  call.writes_if(problem.training, "rstd", args.rstd, forms.rstd);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

void check(const RmsNormProblem& problem, const RmsNormBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("dy", args.dy, forms.rows);
  call.reads("h", args.h, forms.rows);
  call.reads("g", args.g, forms.weight);
  call.reads("rstd", args.rstd, forms.rstd);
  if (args.dsum.data != nullptr) call.reads("dsum", args.dsum, forms.rows);
  call.writes("dx", args.dx, forms.rows);
  if (args.dresidual.data != nullptr) call.writes("dresidual", args.dresidual, forms.rows);
  call.writes("dg", args.dg, forms.dg);
  call.check_apart(workspace_bytes, workspace);
}

RmsNormForwardPlan plan_rms_norm_forward(const RmsNormProblem& problem,
                                         const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(rms_norm_forward_implementations(), problem,
                                request_of(problem, options), options);
}

RmsNormBackwardPlan plan_rms_norm_backward(const RmsNormProblem& problem,
                                           const PlanOptions& options) {
  check(problem);
  Request request = request_of(problem, options);
  request.forced_environment =
      forced_for_backward(request.forced_environment, rms_norm_forward_implementations(),
                          rms_norm_backward_implementations());
  return make_plan<BackwardPass>(rms_norm_backward_implementations(), problem, request, options);
}

void run(const RmsNormForwardPlan& plan, const RmsNormForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rms_norm_forward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const RmsNormBackwardPlan& plan, const RmsNormBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rms_norm_backward", plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
