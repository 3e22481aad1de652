#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "grouped_gemm";

static_assert(equal(OCTET_GROUPED_OVER_ROWS, GroupedOver::rows));
static_assert(equal(OCTET_GROUPED_OVER_CONTRACTION, GroupedOver::contraction));

GroupedGemmProblem read_problem(const octet_grouped_gemm_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  GroupedGemmProblem problem;
  problem.over = static_cast<GroupedOver>(c.over);
  problem.groups = c.groups;
  problem.rows = c.rows;
  problem.n = c.n;
  problem.k = c.k;
  problem.a = read_operand(kOp, "a", c.a);
  problem.b = read_operand(kOp, "b", c.b);
  problem.out_dtype = read_dtype(kOp, "out", c.out_dtype);
  problem.accumulate = read_flag(kOp, "accumulate", c.accumulate);
  problem.tail = static_cast<GroupTail>(c.tail);
  problem.expected_rows = c.expected_rows;
  problem.max_multiprocessors = c.max_multiprocessors;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

GroupedGemmArgs read_args(const GroupedGemmProblem& /*problem*/,
                          const octet_grouped_gemm_args* given) {
  const auto c = read_struct(kOp, "args", given);
  return {read_quantized(kOp, "a", c.a), read_quantized(kOp, "b", c.b), read_tensor(kOp, "d", c.d),
          read_tensor(kOp, "table", c.table)};
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_grouped_gemm_plan(const octet_grouped_gemm_problem* problem,
                                          const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_grouped_gemm, problem, options, plan);
}

octet_status octet_run_grouped_gemm(const octet_plan* plan, const octet_grouped_gemm_args* args,
                                    void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::GroupedGemmPlan>(kOp, read_args, plan, args, workspace, workspace_bytes,
                                        stream);
}

}  // extern "C"
