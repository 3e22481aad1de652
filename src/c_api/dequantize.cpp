#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "dequantize";

DequantizeProblem read_problem(const octet_dequantize_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  DequantizeProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.format = read_dtype(kOp, "format", c.format);
  problem.block = read_block(kOp, "input", c.block);
  problem.out_dtype = read_dtype(kOp, "out", c.out_dtype);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

DequantizeArgs read_args(const DequantizeProblem&, const octet_dequantize_args* given) {
  const auto c = read_struct(kOp, "args", given);
  DequantizeArgs args;
  args.input = read_quantized(kOp, "input", c.input);
  args.out = read_tensor(kOp, "out", c.out);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_dequantize_plan(const octet_dequantize_problem* problem,
                                        const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_dequantize, problem, options, plan);
}

octet_status octet_run_dequantize(const octet_plan* plan, const octet_dequantize_args* args,
                                  void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::DequantizePlan>(kOp, read_args, plan, args, workspace, workspace_bytes,
                                       stream);
}

}  // extern "C"
