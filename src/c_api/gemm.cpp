#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "gemm";

GemmOperand read_operand(const char* name, const octet_gemm_operand& operand) {
  return {read_dtype(kOp, name, operand.dtype), read_block(kOp, name, operand.block),
          static_cast<Major>(operand.major)};
}

GemmProblem read(const octet_gemm_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  check_unused(kOp, "group_count", c.group_count == 0);
  check_unused(kOp, "determinism", c.determinism == 0);
  check_unused(kOp, "split_k", c.split_k == 0);
  GemmProblem problem;
  problem.m = c.m;
  problem.n = c.n;
  problem.k = c.k;
  problem.a = read_operand("a", c.a);
  problem.b = read_operand("b", c.b);
  problem.out = read_dtype(kOp, "out", c.out);
  problem.accumulate = read_flag(kOp, "accumulate", c.accumulate);
  problem.device = read_device(kOp, "problem", c.device);
  problem.groups = static_cast<GroupKind>(c.group_kind);
  problem.activation = static_cast<Activation>(c.activation);
  problem.bias = read_flag(kOp, "bias", c.bias);
  return problem;
}

GemmArgs read(const octet_gemm_args* given) {
  const auto c = read_struct(kOp, "args", given);
  check_unused(kOp, "bias", c.bias.data == nullptr && c.bias.rank == 0);
  check_unused(kOp, "group_offsets", c.group_offsets == nullptr);
  GemmArgs args;
  args.a = read_quantized(kOp, "a", c.a);
  args.b = read_quantized(kOp, "b", c.b);
  args.d = read_tensor(kOp, "d", c.d);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_plan_gemm(const octet_gemm_problem* problem, const octet_plan_options* options,
                             octet_plan** plan) {
  return make_plan(kOp, plan, [&] {
    const octet::GemmProblem checked = read(problem);
    return std::pair{octet::plan_gemm(checked, read_plan_options(kOp, options)),
                     octet::describe(checked)};
  });
}

octet_status octet_run_gemm(const octet_plan* plan, const octet_gemm_args* args, void* workspace,
                            size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const auto& checked = plan_of<octet::GemmPlan>(kOp, plan);
    octet::run(checked, read(args), {workspace, workspace_bytes}, stream);
  });
}

}  // extern "C"
