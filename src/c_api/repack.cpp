#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "repack";

RepackProblem read(const octet_repack_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  RepackProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.format = read_dtype(kOp, "format", c.format);
  problem.block = read_block(kOp, "problem", c.block);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

RepackArgs read(const octet_repack_args* given) {
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

octet_status octet_plan_repack(const octet_repack_problem* problem,
                               const octet_plan_options* options, octet_plan** plan) {
  return make_plan(kOp, plan, [&] {
    const octet::RepackProblem checked = read(problem);
    return std::pair{octet::plan_repack(checked, read_plan_options(kOp, options)),
                     octet::describe(checked)};
  });
}

octet_status octet_run_repack(const octet_plan* plan, const octet_repack_args* args,
                              void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const auto& checked = plan_of<octet::RepackPlan>(kOp, plan);
    octet::run(checked, read(args), {workspace, workspace_bytes}, stream);
  });
}

}  // extern "C"
