#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "gemm";

static_assert(equal(OCTET_MAJOR_K, Major::k));
static_assert(equal(OCTET_MAJOR_MN, Major::mn));
static_assert(equal(OCTET_GROUPS_NONE, GroupKind::none));
static_assert(equal(OCTET_ACTIVATION_NONE, Activation::none));

GemmProblem read_problem(const octet_gemm_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  check_unused(kOp, "group_count", c.group_count == 0);
  check_unused(kOp, "determinism", c.determinism == 0);
  check_unused(kOp, "split_k", c.split_k == 0);
  GemmProblem problem;
  problem.m = c.m;
  problem.n = c.n;
  problem.k = c.k;
  problem.a = read_operand(kOp, "a", c.a);
  problem.b = read_operand(kOp, "b", c.b);
  problem.out_dtype = read_dtype(kOp, "out", c.out_dtype);
  problem.accumulate = read_flag(kOp, "accumulate", c.accumulate);
  problem.fast_accumulation = read_flag(kOp, "fast_accumulation", c.fast_accumulation);
  problem.max_multiprocessors = c.max_multiprocessors;
  problem.device = read_device(kOp, "problem", c.device);
  problem.groups = static_cast<GroupKind>(c.group_kind);
  problem.activation = static_cast<Activation>(c.activation);
  problem.bias_dtype = read_optional_dtype(kOp, "bias", c.bias_dtype);
  return problem;
}

GemmArgs read_args(const GemmProblem&, const octet_gemm_args* given) {
  const auto c = read_struct(kOp, "args", given);
  check_unused(kOp, "group_offsets", c.group_offsets == nullptr);
  GemmArgs args;
  args.a = read_quantized(kOp, "a", c.a);
  args.b = read_quantized(kOp, "b", c.b);
  args.d = read_tensor(kOp, "d", c.d);
  args.bias = read_tensor(kOp, "bias", c.bias);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_gemm_plan(const octet_gemm_problem* problem,
                                  const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_gemm, problem, options, plan);
}

octet_status octet_run_gemm(const octet_plan* plan, const octet_gemm_args* args, void* workspace,
                            size_t workspace_bytes, void* stream) {
  return run_op<octet::GemmPlan>(kOp, read_args, plan, args, workspace, workspace_bytes, stream);
}

}  // extern "C"
