// The number of threads and concurrent callers never change a bit.
#include "ops/gated_activation/case.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace octet {
namespace {

TEST(GatedActivationThreads, AnyNumberOfThreadsGivesTheSameBits) {
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    for (const std::int64_t rows : {1, 300}) {
      const GatedActivationProblem problem{rows, 700, Dtype::bf16, GateActivation::gelu_erf, true};
      const GatedActivationCase wanted(problem);
      wanted.fill(1);
      wanted.run_both(backend, 1);
      for (const int threads : {2, 3, 7}) {
        const GatedActivationCase given(problem);
        given.fill(1);
        given.run_both(backend, threads);
        EXPECT_TRUE(given.same_outputs(wanted)) << backend << ", " << threads << " threads";
      }
    }
  }
}

TEST(GatedActivationThreads, ManyCallersOfOnePlanGetTheBitsOfOne) {
  const GatedActivationProblem problem{200, 300, Dtype::bf16, GateActivation::silu, true};
  const auto forward = plan_gated_activation_forward(problem, {"", 3});
  const auto backward = plan_gated_activation_backward(problem, {"", 3});
  const auto run_plans = [&](const GatedActivationCase& test) {
    run(forward, test.forward_args());
    run(backward, test.backward_args());
  };
  const GatedActivationCase wanted(problem);
  wanted.fill(2);
  run_plans(wanted);
  constexpr int kCallers = 6;
  std::vector<int> different(kCallers, 0);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 3; ++i) {
        const GatedActivationCase given(problem);
        given.fill(2);
        run_plans(given);
        if (!given.same_outputs(wanted)) ++different[static_cast<std::size_t>(caller)];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int count : different) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace octet
