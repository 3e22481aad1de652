#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "rope";

RopeProblem read_problem(const octet_rope_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RopeProblem problem;
  problem.batch = c.batch;
  problem.seq = c.seq;
  problem.q_heads = c.q_heads;
  problem.k_heads = c.k_heads;
  problem.head_dim = c.head_dim;
  problem.dtype = read_dtype(kOp, "q", c.dtype);
  problem.rotation = read_rotation(kOp, c.rotation);
  problem.inverse = read_flag(kOp, "inverse", c.inverse);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RopeArgs read_args(const RopeProblem& problem, const octet_rope_args* given) {
  const auto c = read_struct(kOp, "args", given);
  RopeArgs args;
  args.q = read_tensor(kOp, "q", c.q);
  args.q_out = read_tensor(kOp, "q_out", c.q_out);
  if (problem.k_heads != 0) {
    args.k = read_tensor(kOp, "k", c.k);
    args.k_out = read_tensor(kOp, "k_out", c.k_out);
  }
  args.rotation = read_rotation_args(kOp, problem.rotation, c.rotation);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_plan_rope(const octet_rope_problem* problem, const octet_plan_options* options,
                             octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_rope, problem, options, plan);
}

octet_status octet_run_rope(const octet_plan* plan, const octet_rope_args* args, void* workspace,
                            size_t workspace_bytes, void* stream) {
  return run_op<octet::RopePlan>(kOp, read_args, plan, args, workspace, workspace_bytes, stream);
}

}  // extern "C"
