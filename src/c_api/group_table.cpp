#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "group_table";

static_assert(equal(OCTET_GROUP_SIZES, GroupSizes::sizes));
static_assert(equal(OCTET_GROUP_ENDS, GroupSizes::ends));
static_assert(equal(OCTET_GROUP_OFFSETS, GroupSizes::offsets));
static_assert(equal(OCTET_TAIL_ZERO, GroupTail::zero));
static_assert(equal(OCTET_TAIL_UNTOUCHED, GroupTail::untouched));
static_assert(OCTET_MAX_GROUPS == kMaxGroups);

GroupTableProblem read_problem(const octet_group_table_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  GroupTableProblem problem;
  problem.groups = c.groups;
  problem.rows = c.rows;
  problem.given = static_cast<GroupSizes>(c.given);
  problem.sizes_dtype = read_dtype(kOp, "sizes", c.sizes_dtype);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

GroupTableArgs read_args(const GroupTableProblem& /*problem*/,
                         const octet_group_table_args* given) {
  const auto c = read_struct(kOp, "args", given);
  return {read_tensor(kOp, "sizes", c.sizes), read_tensor(kOp, "table", c.table)};
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_group_table_words(int64_t groups, int64_t rows, int64_t* words) {
  return guarded([&] {
    check_pointer(kOp, "the address of the words", words);
    *words = octet::group_table_words(groups, rows);
  });
}

octet_status octet_max_token_blocks(int64_t groups, int64_t rows, int64_t* blocks) {
  return guarded([&] {
    check_pointer(kOp, "the address of the blocks", blocks);
    *blocks = octet::max_token_blocks(groups, rows);
  });
}

octet_status octet_make_group_table_plan(const octet_group_table_problem* problem,
                                         const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_group_table, problem, options, plan);
}

octet_status octet_run_group_table(const octet_plan* plan, const octet_group_table_args* args,
                                   void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::GroupTablePlan>(kOp, read_args, plan, args, workspace, workspace_bytes,
                                       stream);
}

octet_status octet_check_group_table(const octet_tensor* table, void* stream) {
  return guarded([&] {
    check_pointer(kOp, "table", table);
    octet::check_group_table(read_tensor(kOp, "table", *table), stream);
  });
}

}  // extern "C"
