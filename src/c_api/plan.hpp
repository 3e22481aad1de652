// One plan type for all operators.
#pragma once

#include "c_api/read.hpp"
#include "c_api/status.hpp"

#include <memory>
#include <string>
#include <utility>
#include <variant>

struct octet_plan {
  using Any =
      std::variant<octet::QuantizePlan, octet::DequantizePlan, octet::RepackPlan, octet::GemmPlan,
                   octet::Fp8LinearForwardPlan, octet::Fp8LinearBackwardPlan,
                   octet::RmsNormForwardPlan, octet::RmsNormBackwardPlan, octet::RopePlan,
                   octet::RmsNormRopeForwardPlan, octet::RmsNormRopeBackwardPlan,
                   octet::GatedActivationForwardPlan, octet::GatedActivationBackwardPlan,
                   octet::GatedMlpForwardPlan, octet::GatedMlpBackwardPlan>;
  Any any;
  std::string op;       // "gemm"
  std::string problem;  // the command line that repeats it
};

namespace octet::c_api {

// Runs `make`, which returns std::pair{plan, description}, and hands the plan to the caller; null
// after an error. Braces keep the order: a problem is checked, by planning it, before it is described.
template <class Make>
octet_status make_plan(const char* op, octet_plan** out, const Make& make) noexcept {
  if (out != nullptr) *out = nullptr;
  return guarded([&] {
    check_pointer(op, "the address of the plan", out);
    auto [plan, problem] = make();
    *out =
        std::make_unique<octet_plan>(octet_plan{std::move(plan), op, std::move(problem)}).release();
  });
}

// The plan of one operator; a plan of another one is refused.
template <class CppPlan>
const CppPlan& plan_of(const char* op, const octet_plan* plan) {
  check_pointer(op, "the plan", plan);
  const CppPlan* found = std::get_if<CppPlan>(&plan->any);
  if (found == nullptr) {
    refuse_argument(op, ": the plan must come from octet_plan_", op, "(), got one of octet_plan_",
                    plan->op, "()");
  }
  return *found;
}

}  // namespace octet::c_api
