#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/rms_norm/problem.hpp"

#include <array>
#include <cmath>

namespace octet {
namespace {

constexpr std::string_view kOp = "rms_norm";

Request request_of(const RmsNormProblem& problem, const PlanOptions& options) {
  return make_request(kOp, problem.fp8 ? "fp8" : "other", describe(problem), options.backend);
}

// The views a call reads and writes; those it ignores have no data.
RmsNormForwardArgs used_views(const RmsNormProblem& problem, RmsNormForwardArgs args) {
  if (!problem.residual) args.residual = args.sum = {};
  if (!problem.training) args.rstd = {};
  if (problem.fp8) args.y = {};
  args.fp8 = problem.fp8 ? wanted_copies(*problem.fp8, args.fp8) : Fp8Copies{};
  return args;
}

}  // namespace

std::span<const RmsNormForwardImplementation> rms_norm_forward_implementations() {
  static const std::array<RmsNormForwardImplementation, 5> list{
      kRmsNormForwardCudaSm90Tile, kRmsNormForwardCudaSm90Rows, kRmsNormForwardCpuSimd,
      kRmsNormForwardUnfused, kRmsNormForwardCpuReference};
  return list;
}

std::span<const RmsNormBackwardImplementation> rms_norm_backward_implementations() {
  static const std::array<RmsNormBackwardImplementation, 3> list{
      kRmsNormBackwardCudaSm90Rows, kRmsNormBackwardCpuSimd, kRmsNormBackwardCpuReference};
  return list;
}

std::string describe(const RmsNormProblem& problem) {
  std::string result = text("rms-norm --shape ", problem.rows, "x", problem.cols, " --dtype ",
                            name(problem.dtype), " --weight ", name(problem.weight));
  if (problem.eps != 1e-6f) result += " --eps " + exact_text(problem.eps);
  if (problem.residual) result += " --residual";
  if (problem.one_plus_weight) result += " --one-plus-weight";
  if (!problem.training) result += " --inference";
  if (problem.dg != Dtype::f32) result += text(" --dg ", name(problem.dg));
  if (problem.fp8) result += describe(*problem.fp8);
  return result + " --device " + name(problem.device);
}

void check(const RmsNormProblem& problem) {
  check_count(kOp, "rows", problem.rows);
  if (problem.fp8) check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "dtype"}, problem.dtype);
  check_float({kOp, "weight"}, problem.weight);
  check_float({kOp, "dg"}, problem.dg);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (!(problem.eps >= 0) || std::isinf(problem.eps)) {
    refuse_argument(kOp, ": eps must be finite and at least 0, got ", problem.eps);
  }
  if (problem.fp8) check_fp8_output(kOp, *problem.fp8);
  check_device(kOp, problem.device);
}

void check(const RmsNormProblem& problem, const RmsNormForwardArgs& args) {
  const auto check_rows = [&](std::string_view name, const TensorView& view) {
    check_tensor({kOp, name}, view, problem.dtype, {problem.rows, problem.cols}, problem.device,
                 "[rows, cols]");
  };
  check_rows("x", args.x);
  if (problem.residual) check_rows("residual", args.residual);
  check_vector({kOp, "g"}, args.g, problem.weight, problem.cols, problem.device, "[cols]");
  if (problem.fp8) {
    check_fp8_copies(kOp, *problem.fp8, args.fp8, problem.rows, problem.cols, problem.device);
  } else {
    check_rows("y", args.y);
  }
  if (problem.residual) check_rows("sum", args.sum);
  if (problem.training) {
    check_vector({kOp, "rstd"}, args.rstd, Dtype::f32, problem.rows, problem.device, "[rows]");
  }
  const RmsNormForwardArgs used = used_views(problem, args);
  check_outputs_apart(kOp,
                      {{"y", used.y},
                       {"fp8.out", used.fp8.out},
                       {"fp8.transposed", used.fp8.transposed},
                       {"sum", used.sum},
                       {"rstd", used.rstd}},
                      {{"x", used.x}, {"residual", used.residual}, {"g", used.g}});
}

void check(const RmsNormProblem& problem, const RmsNormBackwardArgs& args) {
  const auto check_rows = [&](std::string_view name, const TensorView& view) {
    check_tensor({kOp, name}, view, problem.dtype, {problem.rows, problem.cols}, problem.device,
                 "[rows, cols]");
  };
  check_rows("dy", args.dy);
  check_rows("h", args.h);
  check_vector({kOp, "g"}, args.g, problem.weight, problem.cols, problem.device, "[cols]");
  check_vector({kOp, "rstd"}, args.rstd, Dtype::f32, problem.rows, problem.device, "[rows]");
  if (args.dsum.data != nullptr) check_rows("dsum", args.dsum);
  check_rows("dx", args.dx);
  if (args.dresidual.data != nullptr) check_rows("dresidual", args.dresidual);
  check_vector({kOp, "dg"}, args.dg, problem.dg, problem.cols, problem.device, "[cols]");
  check_outputs_apart(
      kOp, {{"dx", args.dx}, {"dresidual", args.dresidual}, {"dg", args.dg}},
      {{"dy", args.dy}, {"h", args.h}, {"g", args.g}, {"rstd", args.rstd}, {"dsum", args.dsum}});
}

RmsNormForwardPlan plan_rms_norm_forward(const RmsNormProblem& problem,
                                         const PlanOptions& options) {
  check(problem);
  return make_pass_plan<RmsNormForward>(rms_norm_forward_implementations(), problem,
                                        request_of(problem, options), options);
}

RmsNormBackwardPlan plan_rms_norm_backward(const RmsNormProblem& problem,
                                           const PlanOptions& options) {
  check(problem);
  return make_pass_plan<RmsNormBackward>(rms_norm_backward_implementations(), problem,
                                         request_of(problem, options), options);
}

void run(const RmsNormForwardPlan& plan, const RmsNormForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rms_norm_forward", plan.state.get());
  const RmsNormProblem& problem = plan.problem.problem;
  check(problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  const RmsNormForwardArgs used = used_views(problem, args);
  check_workspace_apart(kOp, plan.workspace_bytes, workspace,
                        {{"x", used.x},
                         {"residual", used.residual},
                         {"g", used.g},
                         {"y", used.y},
                         {"fp8.out", used.fp8.out},
                         {"fp8.transposed", used.fp8.transposed},
                         {"sum", used.sum},
                         {"rstd", used.rstd}});
  run_pass(plan, used, workspace, stream);
}

void run(const RmsNormBackwardPlan& plan, const RmsNormBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("rms_norm_backward", plan.state.get());
  check(plan.problem.problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  check_workspace_apart(kOp, plan.workspace_bytes, workspace,
                        {{"dy", args.dy},
                         {"h", args.h},
                         {"g", args.g},
                         {"rstd", args.rstd},
                         {"dsum", args.dsum},
                         {"dx", args.dx},
                         {"dresidual", args.dresidual},
                         {"dg", args.dg}});
  run_pass(plan, args, workspace, stream);
}

}  // namespace octet
