// The same rules through a real operator: what a plan says of itself.
#include "dispatch/environment.hpp"
#include "dispatch/machine.hpp"
#include "ops/gemm/problem.hpp"
#include "support/refusal.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

namespace octet {
namespace {

GemmProblem small_gemm() {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 4;
  return problem;
}

TEST(Plan, NamesItsImplementationAndWhy) {
  const ScopedVariable variable("OCTET_GEMM_BACKEND", "");
  const GemmPlan plan = plan_gemm(small_gemm());
  const auto list = gemm_implementations();
  EXPECT_TRUE(std::any_of(list.begin(), list.end(),
                          [&](const auto& entry) { return plan.implementation == entry.name; }));
  EXPECT_NE(plan.why.find("the first that takes the problem"), std::string::npos) << plan.why;
  EXPECT_FALSE(plan.configuration.empty());
}

TEST(Plan, TheReferenceIsLastInTheList) {
  EXPECT_STREQ(gemm_implementations().back().name, "cpu_reference");
}

TEST(Plan, ObeysTheEnvironmentPerPrecision) {
  const ScopedVariable variable("OCTET_GEMM_BACKEND", "fp8:cpu_reference,other:nonsense");
  EXPECT_EQ(plan_gemm(small_gemm()).why, "forced by OCTET_GEMM_BACKEND");
  GemmProblem plain = small_gemm();
  plain.a = plain.b = {Dtype::bf16, {}, Major::k};
  const std::string message = refusal([&] { plan_gemm(plain); }, ErrorCode::invalid_argument);
  EXPECT_NE(message.find("no implementation is called \"nonsense\""), std::string::npos) << message;
}

TEST(Plan, ObeysItsArgumentBeforeTheEnvironment) {
  const ScopedVariable variable("OCTET_GEMM_BACKEND", "nonsense");
  const GemmPlan plan = plan_gemm(small_gemm(), {"cpu_reference", 1});
  EXPECT_EQ(plan.implementation, "cpu_reference");
  EXPECT_EQ(plan.why, "forced by argument");
}

TEST(Plan, IsTheSameForTheSameProblem) {
  const GemmPlan one = plan_gemm(small_gemm(), {"", 2});
  const GemmPlan two = plan_gemm(small_gemm(), {"", 2});
  EXPECT_EQ(one.implementation, two.implementation);
  EXPECT_EQ(one.configuration, two.configuration);
  EXPECT_EQ(one.workspace_bytes, two.workspace_bytes);
}

TEST(Plan, RefusesThreadsOutOfRange) {
  EXPECT_EQ(refusal(
                [] {
                  plan_gemm(small_gemm(), {"", -1});
                },
                ErrorCode::invalid_argument),
            "threads must be between 0 and 1024, got -1");
  EXPECT_EQ(refusal(
                [] {
                  plan_gemm(small_gemm(), {"", 1025});
                },
                ErrorCode::invalid_argument),
            "threads must be between 0 and 1024, got 1025");
}

TEST(Plan, AnEmptyPlanIsRefusedByRun) {
  EXPECT_EQ(refusal([] { run(GemmPlan{}, {}); }, ErrorCode::invalid_argument),
            "gemm: the plan is empty: plan_gemm() makes one from a problem");
}

TEST(Machine, HasTheThreadsAskedFor) {
  EXPECT_EQ(this_machine(kCpu, 3).threads, 3);
  const ScopedVariable variable("OCTET_NUM_THREADS", "5");
  EXPECT_EQ(this_machine(kCpu, 0).threads, 5);
}

}  // namespace
}  // namespace octet
