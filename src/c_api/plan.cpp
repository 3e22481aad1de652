#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

// Reads a property of a plan. A null plan gives 0 or null, and octet_last_error() says so.
template <class Get>
auto ask(const octet_plan* plan, const Get& get) noexcept {
  decltype(get(*plan)) answer{};
  guarded([&] {
    check_pointer("plan", "the plan", plan);
    answer = get(*plan);
  });
  return answer;
}

}  // namespace
}  // namespace octet::c_api

using octet::c_api::ask;

extern "C" {

size_t octet_plan_workspace_bytes(const octet_plan* plan) {
  return ask(plan, [](const octet_plan& given) { return given.workspace_bytes; });
}

const char* octet_plan_implementation(const octet_plan* plan) {
  return ask(plan, [](const octet_plan& given) { return given.implementation.c_str(); });
}

const char* octet_plan_configuration(const octet_plan* plan) {
  return ask(plan, [](const octet_plan& given) { return given.configuration.c_str(); });
}

const char* octet_plan_why(const octet_plan* plan) {
  return ask(plan, [](const octet_plan& given) { return given.why.c_str(); });
}

const char* octet_plan_problem(const octet_plan* plan) {
  return ask(plan, [](const octet_plan& given) { return given.problem.c_str(); });
}

void octet_destroy_plan(octet_plan* plan) { delete plan; }

}  // extern "C"
