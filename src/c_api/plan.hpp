// One plan type for all operators, and the two functions that every pass of an operator has: plan
// and run. A pass provides the functions that read its structs:
//
//   Problem read_problem(const octet_x_problem* given)
//   Args read_args(const Problem& problem, const octet_x_args* given)
#pragma once

#include "c_api/read.hpp"
#include "c_api/status.hpp"

#include <any>
#include <memory>
#include <string>
#include <utility>

struct octet_plan {
  std::any plan;        // octet::GemmPlan, octet::RmsNormForwardPlan, ...
  std::string op;       // "gemm", "rms_norm_forward"
  std::string problem;  // the command line that repeats it
  std::string implementation;
  std::string configuration;
  std::string why;
  size_t workspace_bytes;
};

namespace octet::c_api {

// octet_make_<pass>_plan(): gives the plan to the caller, or null after an error.
template <class Read, class MakePlan, class CProblem, class COptions>
octet_status plan_op(const char* op, const char* pass, const Read& read_problem,
                     const MakePlan& make_plan, const CProblem* problem, const COptions* options,
                     octet_plan** out) noexcept {
  if (out != nullptr) *out = nullptr;
  return guarded([&] {
    check_pointer(pass, "the address of the plan", out);
    const auto given = read_problem(problem);
    auto plan = make_plan(given, read_options(op, options));  // checks what describe() relies on
    auto result = std::make_unique<octet_plan>(octet_plan{{},
                                                          pass,
                                                          describe(given),
                                                          plan.implementation,
                                                          plan.configuration,
                                                          plan.why,
                                                          plan.workspace_bytes});
    result->plan = std::move(plan);
    *out = result.release();
  });
}

// The plan of one pass; a plan of another one is refused.
template <class CppPlan>
const CppPlan& plan_of(const char* pass, const octet_plan* plan) {
  check_pointer(pass, "the plan", plan);
  const auto* found = std::any_cast<CppPlan>(&plan->plan);
  if (found == nullptr) {
    refuse_argument(pass, ": the plan must come from octet_make_", pass,
                    "_plan(), got one of octet_make_", plan->op, "_plan()");
  }
  return *found;
}

// octet_run_<pass>().
template <class CppPlan, class Read, class CArgs>
octet_status run_op(const char* pass, const Read& read_args, const octet_plan* plan,
                    const CArgs* args, void* workspace, size_t workspace_bytes,
                    void* stream) noexcept {
  return guarded([&] {
    const CppPlan& checked = plan_of<CppPlan>(pass, plan);
    const Workspace memory{workspace, workspace_bytes};
    run(checked, read_args(checked.problem, args), memory, stream);
  });
}

}  // namespace octet::c_api
