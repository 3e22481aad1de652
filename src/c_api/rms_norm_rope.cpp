#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "rms_norm_rope";
constexpr const char* kForward = "rms_norm_rope_forward";
constexpr const char* kBackward = "rms_norm_rope_backward";

static_assert(equal(OCTET_NORM_ROW, NormScope::row));
static_assert(equal(OCTET_NORM_HEAD, NormScope::head));

RmsNormRopeProblem read_problem(const octet_rms_norm_rope_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RmsNormRopeProblem problem;
  read_heads(c, problem);
  problem.norm = static_cast<NormScope>(c.norm);
  problem.dtype = read_dtype(kOp, "q", c.dtype);
  problem.weight_dtype = read_dtype(kOp, "g", c.weight_dtype);
  problem.eps = c.eps;
  problem.one_plus_weight = read_flag(kOp, "one_plus_weight", c.one_plus_weight);
  problem.training = read_flag(kOp, "training", c.training);
  problem.dg_dtype = read_dtype(kOp, "dg", c.dg_dtype);
  problem.rotation = read_rotation(kOp, c.rotation);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RmsNormRopeForwardArgs read_forward(const RmsNormRopeProblem& problem,
                                    const octet_rms_norm_rope_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  RmsNormRopeForwardArgs args;
  args.q = read_tensor(kForward, "q", c.q);
  args.g_q = read_tensor(kForward, "g_q", c.g_q);
  args.q_out = read_tensor(kForward, "q_out", c.q_out);
  if (problem.training) args.rstd_q = read_tensor(kForward, "rstd_q", c.rstd_q);
  if (problem.k_heads != 0) {
    args.k = read_tensor(kForward, "k", c.k);
    args.g_k = read_tensor(kForward, "g_k", c.g_k);
    args.k_out = read_tensor(kForward, "k_out", c.k_out);
    if (problem.training) args.rstd_k = read_tensor(kForward, "rstd_k", c.rstd_k);
  }
  args.rotation = read_rotation_args(kForward, problem.rotation, c.rotation);
  return args;
}

RmsNormRopeBackwardArgs read_backward(const RmsNormRopeProblem& problem,
                                      const octet_rms_norm_rope_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  RmsNormRopeBackwardArgs args;
  args.dq_out = read_tensor(kBackward, "dq_out", c.dq_out);
  args.q = read_tensor(kBackward, "q", c.q);
  args.g_q = read_tensor(kBackward, "g_q", c.g_q);
  args.rstd_q = read_tensor(kBackward, "rstd_q", c.rstd_q);
  args.dq = read_tensor(kBackward, "dq", c.dq);
  args.dg_q = read_tensor(kBackward, "dg_q", c.dg_q);
  if (problem.k_heads != 0) {
    args.dk_out = read_tensor(kBackward, "dk_out", c.dk_out);
    args.k = read_tensor(kBackward, "k", c.k);
    args.g_k = read_tensor(kBackward, "g_k", c.g_k);
    args.rstd_k = read_tensor(kBackward, "rstd_k", c.rstd_k);
    args.dk = read_tensor(kBackward, "dk", c.dk);
    args.dg_k = read_tensor(kBackward, "dg_k", c.dg_k);
  }
  args.rotation = read_rotation_args(kBackward, problem.rotation, c.rotation);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_rms_norm_rope_forward_plan(const octet_rms_norm_rope_problem* problem,
                                                   const octet_plan_options* options,
                                                   octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_rms_norm_rope_forward, problem, options,
                 plan);
}

octet_status octet_make_rms_norm_rope_backward_plan(const octet_rms_norm_rope_problem* problem,
                                                    const octet_plan_options* options,
                                                    octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_rms_norm_rope_backward, problem, options,
                 plan);
}

octet_status octet_run_rms_norm_rope_forward(const octet_plan* plan,
                                             const octet_rms_norm_rope_forward_args* args,
                                             void* workspace, size_t workspace_bytes,
                                             void* stream) {
  return run_op<octet::RmsNormRopeForwardPlan>(kForward, read_forward, plan, args, workspace,
                                               workspace_bytes, stream);
}

octet_status octet_run_rms_norm_rope_backward(const octet_plan* plan,
                                              const octet_rms_norm_rope_backward_args* args,
                                              void* workspace, size_t workspace_bytes,
                                              void* stream) {
  return run_op<octet::RmsNormRopeBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                                workspace_bytes, stream);
}

}  // extern "C"
