#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "rope";
constexpr const char* kForward = "rope_forward";
constexpr const char* kBackward = "rope_backward";

RopeProblem read_problem(const octet_rope_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RopeProblem problem;
  read_heads(c, problem);
  problem.dtype = read_dtype(kOp, "q", c.dtype);
  problem.rotation = read_rotation(kOp, c.rotation);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RopeForwardArgs read_forward(const RopeProblem& problem, const octet_rope_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  RopeForwardArgs args;
  args.q = read_tensor(kOp, "q", c.q);
  args.q_out = read_tensor(kOp, "q_out", c.q_out);
  if (problem.k_heads != 0) {
    args.k = read_tensor(kOp, "k", c.k);
    args.k_out = read_tensor(kOp, "k_out", c.k_out);
  }
  args.rotation = read_rotation_args(kOp, problem.rotation, c.rotation);
  return args;
}

RopeBackwardArgs read_backward(const RopeProblem& problem, const octet_rope_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  RopeBackwardArgs args;
  args.dq_out = read_tensor(kOp, "dq_out", c.dq_out);
  args.dq = read_tensor(kOp, "dq", c.dq);
  if (problem.k_heads != 0) {
    args.dk_out = read_tensor(kOp, "dk_out", c.dk_out);
    args.dk = read_tensor(kOp, "dk", c.dk);
  }
  args.rotation = read_rotation_args(kOp, problem.rotation, c.rotation);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_rope_forward_plan(const octet_rope_problem* problem,
                                          const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_rope_forward, problem, options, plan);
}

octet_status octet_make_rope_backward_plan(const octet_rope_problem* problem,
                                           const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_rope_backward, problem, options, plan);
}

octet_status octet_run_rope_forward(const octet_plan* plan, const octet_rope_forward_args* args,
                                    void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::RopeForwardPlan>(kForward, read_forward, plan, args, workspace,
                                        workspace_bytes, stream);
}

octet_status octet_run_rope_backward(const octet_plan* plan, const octet_rope_backward_args* args,
                                     void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::RopeBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                         workspace_bytes, stream);
}

}  // extern "C"
