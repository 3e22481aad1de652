#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "moe_maps";

static_assert(OCTET_MOE_MAPS_STATUS_WORDS == kMoeMapsStatusWords);

MoeMapsProblem read_problem(const octet_moe_maps_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  MoeMapsProblem problem;
  problem.tokens = c.tokens;
  problem.top_k = c.top_k;
  problem.experts = c.experts;
  problem.first_expert = c.first_expert;
  problem.groups = c.groups;
  problem.rows = c.rows;
  problem.capacity = c.capacity;
  problem.indices_dtype = read_dtype(kOp, "indices", c.indices_dtype);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

MoeMapsArgs read_args(const MoeMapsProblem&, const octet_moe_maps_args* given) {
  const auto c = read_struct(kOp, "args", given);
  return {read_tensor(kOp, "indices", c.indices), read_tensor(kOp, "row_of", c.row_of),
          read_tensor(kOp, "source", c.source),   read_tensor(kOp, "sizes", c.sizes),
          read_tensor(kOp, "table", c.table),     read_tensor(kOp, "status", c.status)};
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_moe_maps_plan(const octet_moe_maps_problem* problem,
                                      const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_moe_maps, problem, options, plan);
}

octet_status octet_run_moe_maps(const octet_plan* plan, const octet_moe_maps_args* args,
                                void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::MoeMapsPlan>(kOp, read_args, plan, args, workspace, workspace_bytes, stream);
}

octet_status octet_read_moe_maps(const octet_tensor* status, void* stream,
                                 octet_moe_maps_report* report) {
  return guarded([&] {
    check_pointer(kOp, "status", status);
    check_pointer(kOp, "the address of the report", report);
    const auto found = octet::read_moe_maps(read_tensor(kOp, "status", *status), stream);
    *report = {found.dropped, found.cut, found.bad_indices};
  });
}

octet_status octet_check_moe_maps(const octet_tensor* status, void* stream) {
  return guarded([&] {
    check_pointer(kOp, "status", status);
    octet::check_moe_maps(read_tensor(kOp, "status", *status), stream);
  });
}

}  // extern "C"
