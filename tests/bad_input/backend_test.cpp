// Forcing an unknown implementation is refused with a list of the known ones, from C++, C and the
// environment.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"
#include "ops/gemm/problem.hpp"

#include <cstdlib>

namespace octet::bad_input {
namespace {

GemmProblem small_problem() {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 4;
  return problem;
}

std::string gemm_names() {
  std::string names;
  for (const GemmImplementation& implementation : gemm_implementations()) {
    names += (names.empty() ? "" : ", ") + std::string(implementation.name);
  }
  return names;
}

TEST(BackendBadInput, AnUnknownNameListsTheOnesThereAre) {
  ASSERT_NE(gemm_names().find("cpu_reference"), std::string::npos);
  const std::string message =
      text("gemm: no implementation is called \"nonsense\", forced by argument; there are: ",
           gemm_names());
  expect_error(ErrorCode::invalid_argument, message,
               [] { plan_gemm(small_problem(), {"nonsense"}); });

  const octet_gemm_problem problem = to_c(small_problem());
  octet_plan_options options;
  OCTET_INIT(&options);
  options.backend = "nonsense";
  octet_plan* plan = nullptr;
  expect_status(ErrorCode::invalid_argument, message,
                octet_make_gemm_plan(&problem, &options, &plan));
  EXPECT_EQ(plan, nullptr);
}

TEST(BackendBadInput, TheEnvironmentIsNamedWhereItForces) {
  ASSERT_EQ(setenv("OCTET_GEMM_BACKEND", "nonsense", 1), 0);
  expect_plan_refused(
      ErrorCode::invalid_argument,
      text("gemm: no implementation is called \"nonsense\", forced by OCTET_GEMM_BACKEND; there "
           "are: ",
           gemm_names()),
      small_problem());
  ASSERT_EQ(setenv("OCTET_GEMM_BACKEND", "fp9:x", 1), 0);
  expect_plan_refused(ErrorCode::invalid_argument,
                      "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got \"fp9:x\" in it",
                      small_problem());
  unsetenv("OCTET_GEMM_BACKEND");
}

TEST(BackendBadInput, TheLayerForcesItsPartsByName) {
  octet_fp8_linear_problem problem;
  octet_init_fp8_linear_problem(&problem);
  problem.m = problem.n = problem.k = 4;
  octet_fp8_linear_options options;
  OCTET_INIT(&options);
  options.gemm_backend = "nonsense";
  octet_plan* plan = nullptr;
  expect_status(
      ErrorCode::invalid_argument,
      text("gemm: no implementation is called \"nonsense\", forced by argument; there are: ",
           gemm_names()),
      octet_make_fp8_linear_forward_plan(&problem, &options, &plan));
}

}  // namespace
}  // namespace octet::bad_input
