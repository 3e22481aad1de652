// One plan serves many threads, each with its own memory; their number changes no bit.
#include <gtest/gtest.h>

#include "ops/linear_cross_entropy/head.hpp"

#include <thread>

namespace octet::testing {
namespace {

TEST(LinearCrossEntropyThreads, OnePlanServesThemAll) {
  const LinearCrossEntropyProblem problem = small_problem();
  const Head alone(problem);
  alone.run();
  const LinearCrossEntropyForwardPlan plan = plan_linear_cross_entropy_forward(problem);
  std::vector<Head> heads;
  for (int i = 0; i < 4; ++i) heads.emplace_back(problem);
  std::vector<std::thread> threads;
  for (const Head& head : heads) {
    threads.emplace_back([&] {
      const Buffer workspace(plan.workspace_bytes);
      for (int repeat = 0; repeat < 3; ++repeat) {
        run(plan, head.forward_args(), {workspace.data(), workspace.bytes()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Head& head : heads) expect_equal_results(alone, head);
}

TEST(LinearCrossEntropyThreads, TheirNumberChangesNoBit) {
  for (const bool fp8 : {false, true}) {
    const Head one(small_problem(fp8)), many(small_problem(fp8));
    one.run_forward({"", "", 1});
    many.run_forward({"", "", 5});
    expect_equal_results(one, many);
  }
}

}  // namespace
}  // namespace octet::testing
