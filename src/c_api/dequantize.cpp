#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "dequantize";

DequantizeProblem read(const octet_dequantize_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  DequantizeProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.format = read_dtype(kOp, "format", c.format);
  problem.block = read_block(kOp, "input", c.block);
  problem.out = read_dtype(kOp, "out", c.out);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

DequantizeArgs read(const octet_dequantize_args* given) {
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

octet_status octet_plan_dequantize(const octet_dequantize_problem* problem,
                                   const octet_plan_options* options, octet_plan** plan) {
  return make_plan(kOp, plan, [&] {
    const octet::DequantizeProblem checked = read(problem);
    return std::pair{octet::plan_dequantize(checked, read_plan_options(kOp, options)),
                     octet::describe(checked)};
  });
}

octet_status octet_run_dequantize(const octet_plan* plan, const octet_dequantize_args* args,
                                  void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const auto& checked = plan_of<octet::DequantizePlan>(kOp, plan);
    octet::run(checked, read(args), {workspace, workspace_bytes}, stream);
  });
}

}  // extern "C"
