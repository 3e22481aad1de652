// The same rules through a real operator: what a plan reports.
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"
#include "ops/gemm/problem.hpp"
#include "support/environment.hpp"
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

TEST(Plan, TakesItsOwnConfigurationByItsText) {
  const GemmPlan chosen = plan_gemm(small_gemm());
  const GemmPlan forced =
      plan_gemm(small_gemm(), {.backend = "", .configuration = chosen.configuration});
  EXPECT_EQ(forced.configuration, chosen.configuration);
  EXPECT_EQ(forced.implementation, chosen.implementation);
}

TEST(Plan, RefusesAnotherConfigurationWhereThereIsOne) {
  EXPECT_EQ(
      refusal(
          [] { plan_gemm(small_gemm(), {.backend = "cpu_reference", .configuration = "vector"}); },
          ErrorCode::unsupported),
      "gemm: cpu_reference cannot run configuration \"vector\": it has one for this problem, "
      "\"scalar\"\n  problem: " +
          describe(small_gemm()));
}

// As in a tuner: plans every configuration of the Hopper product by name, without a GPU.
class PlanOnAnH200 : public ::testing::Test {
 protected:
  PlanOnAnH200() {
    problem_.m = problem_.n = problem_.k = 4096;
    problem_.device = {DeviceType::cuda, 0};
  }
  std::string refusal_of(const std::string& configuration) const {
    return refusal([&] { plan_gemm(problem_, {.backend = "", .configuration = configuration}); },
                   ErrorCode::unsupported);
  }

  const cuda::Pretend h200_{cuda::kH200};
  GemmProblem problem_;
};

TEST_F(PlanOnAnH200, TakesAConfigurationThatIsNotItsChoice) {
  EXPECT_EQ(plan_gemm(problem_).configuration, "256x128x4 1x128.128x128 e4m3.e4m3 cluster");
  const char* other = "64x64x10 1x128.128x128 e4m3.e4m3";
  EXPECT_EQ(plan_gemm(problem_, {.backend = "", .configuration = other}).configuration, other);
}

TEST_F(PlanOnAnH200, RefusesTextThatNamesNoKernelAndListsThoseThatRun) {
  const std::string message = refusal_of("96x96x9");
  EXPECT_EQ(
      message.rfind("gemm: cuda_sm90_wgmma cannot run configuration \"96x96x9\": no kernel of "
                    "this name is compiled; these run the problem:\n",
                    0),
      0u)
      << message;
  EXPECT_NE(message.find("\n    64x32x12 1x128.128x128 e4m3.e4m3\n"), std::string::npos) << message;
  EXPECT_EQ(message.find("e5m2"), std::string::npos) << message;
}

TEST_F(PlanOnAnH200, RefusesAConfigurationOfOtherOperands) {
  EXPECT_NE(refusal_of("256x128x4 1x128.1x128 e4m3.e4m3").find("it is for other dtypes or blocks"),
            std::string::npos);
  problem_.b.block = kBlock1x128;
  problem_.n = 100;
  EXPECT_NE(refusal_of("256x128x4 1x128.1x128 e4m3.e4m3 paired")
                .find("paired columns need N in groups of 16, the problem has 100"),
            std::string::npos);
}

TEST_F(PlanOnAnH200, TakesNoMoreMultiprocessorsThanTheProblemLeaves) {
  problem_.max_multiprocessors = 1;
  EXPECT_EQ(plan_gemm(problem_).configuration.find("cluster"), std::string::npos);
  EXPECT_NE(refusal_of("256x128x4 1x128.128x128 e4m3.e4m3 cluster")
                .find("a cluster needs 2 multiprocessors"),
            std::string::npos);
  problem_.max_multiprocessors = 1000;
  EXPECT_EQ(plan_gemm(problem_).configuration, "256x128x4 1x128.128x128 e4m3.e4m3 cluster");
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
