#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "repack";

RepackProblem read_problem(const octet_repack_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RepackProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.format = read_dtype(kOp, "format", c.format);
  problem.block = read_block(kOp, "problem", c.block);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RepackArgs read_args(const RepackProblem&, const octet_repack_args* given) {
  const auto c = read_struct(kOp, "args", given);
  RepackArgs args;
  args.input = read_quantized(kOp, "input", c.input);
  args.out = read_quantized(kOp, "out", c.out);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_repack_plan(const octet_repack_problem* problem,
                                    const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_repack, problem, options, plan);
}

octet_status octet_run_repack(const octet_plan* plan, const octet_repack_args* args,
                              void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::RepackPlan>(kOp, read_args, plan, args, workspace, workspace_bytes, stream);
}

}  // extern "C"
