#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "adamw";

AdamWProblem read_problem(const octet_adamw_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  AdamWProblem problem;
  problem.count = c.count;
  problem.dtype = read_dtype(kOp, "w", c.dtype);
  problem.grad_dtype = read_dtype(kOp, "g", c.grad_dtype);
  problem.moments_dtype = read_dtype(kOp, "m", c.moments_dtype);
  problem.master = read_flag(kOp, "master", c.master);
  problem.grad_scale = read_flag(kOp, "grad_scale", c.grad_scale);
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.fp8 = read_fp8_output(kOp, c.fp8);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

AdamWArgs read_args(const AdamWProblem& problem, const octet_adamw_args* given) {
  const auto c = read_struct(kOp, "args", given);
  AdamWArgs args;
  args.w = read_tensor(kOp, "w", c.w);
  args.g = read_tensor(kOp, "g", c.g);
  args.m = read_tensor(kOp, "m", c.m);
  args.v = read_tensor(kOp, "v", c.v);
  if (problem.master) args.master = read_tensor(kOp, "master", c.master);
  if (problem.grad_scale) args.grad_scale = read_tensor(kOp, "grad_scale", c.grad_scale);
  args.lr = c.lr;
  args.beta1 = c.beta1;
  args.beta2 = c.beta2;
  args.eps = c.eps;
  args.weight_decay = c.weight_decay;
  args.step = c.step;
  if (problem.fp8) args.fp8 = read_fp8_copies(kOp, *problem.fp8, c.fp8);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_adamw_plan(const octet_adamw_problem* problem,
                                   const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_adamw, problem, options, plan);
}

octet_status octet_run_adamw(const octet_plan* plan, const octet_adamw_args* args, void* workspace,
                             size_t workspace_bytes, void* stream) {
  return run_op<octet::AdamWPlan>(kOp, read_args, plan, args, workspace, workspace_bytes, stream);
}

}  // extern "C"
