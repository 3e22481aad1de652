#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "rms_norm";
constexpr const char* kForward = "rms_norm_forward";
constexpr const char* kBackward = "rms_norm_backward";

RmsNormProblem read_problem(const octet_rms_norm_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RmsNormProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  problem.weight_dtype = read_dtype(kOp, "g", c.weight_dtype);
  problem.eps = c.eps;
  problem.residual = read_flag(kOp, "residual", c.residual);
  problem.one_plus_weight = read_flag(kOp, "one_plus_weight", c.one_plus_weight);
  problem.training = read_flag(kOp, "training", c.training);
  problem.dg_dtype = read_dtype(kOp, "dg", c.dg_dtype);
  problem.fp8 = read_fp8_output(kOp, c.fp8);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RmsNormForwardArgs read_forward(const RmsNormProblem& problem,
                                const octet_rms_norm_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  RmsNormForwardArgs args;
  args.x = read_tensor(kForward, "x", c.x);
  if (problem.residual) args.residual = read_tensor(kForward, "residual", c.residual);
  args.g = read_tensor(kForward, "g", c.g);
  if (problem.fp8) {
    args.fp8 = read_fp8_copies(kForward, *problem.fp8, c.fp8);
  } else {
    args.y = read_tensor(kForward, "y", c.y);
  }
  if (problem.residual) args.sum = read_tensor(kForward, "sum", c.sum);
  if (problem.training) args.rstd = read_tensor(kForward, "rstd", c.rstd);
  return args;
}

RmsNormBackwardArgs read_backward(const RmsNormProblem&,
                                  const octet_rms_norm_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  RmsNormBackwardArgs args;
  args.dy = read_tensor(kBackward, "dy", c.dy);
  args.h = read_tensor(kBackward, "h", c.h);
  args.g = read_tensor(kBackward, "g", c.g);
  args.rstd = read_tensor(kBackward, "rstd", c.rstd);
  args.dsum = read_tensor(kBackward, "dsum", c.dsum);
  args.dx = read_tensor(kBackward, "dx", c.dx);
  args.dresidual = read_tensor(kBackward, "dresidual", c.dresidual);
  args.dg = read_tensor(kBackward, "dg", c.dg);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_rms_norm_forward_plan(const octet_rms_norm_problem* problem,
                                              const octet_plan_options* options,
                                              octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_rms_norm_forward, problem, options, plan);
}

octet_status octet_make_rms_norm_backward_plan(const octet_rms_norm_problem* problem,
                                               const octet_plan_options* options,
                                               octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_rms_norm_backward, problem, options,
                 plan);
}

octet_status octet_run_rms_norm_forward(const octet_plan* plan,
                                        const octet_rms_norm_forward_args* args, void* workspace,
                                        size_t workspace_bytes, void* stream) {
  return run_op<octet::RmsNormForwardPlan>(kForward, read_forward, plan, args, workspace,
                                           workspace_bytes, stream);
}

octet_status octet_run_rms_norm_backward(const octet_plan* plan,
                                         const octet_rms_norm_backward_args* args, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return run_op<octet::RmsNormBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                            workspace_bytes, stream);
}

}  // extern "C"
