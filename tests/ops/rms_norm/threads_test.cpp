// The number of threads and concurrent callers never change a bit.
#include "ops/rms_norm/case.hpp"

#include <random>
#include <thread>

namespace octet {
namespace {

RmsNormProblem problem_of(std::int64_t rows, std::int64_t cols) {
  RmsNormProblem problem{.rows = rows, .cols = cols, .residual = true};
  return problem;
}

void fill(const RmsNormCase& test) {
  std::mt19937 random(3);
  for (const PitchedTensor* tensor : test.inputs()) {
    tensor->fill([&] { return static_cast<float>(static_cast<std::int32_t>(random())) * 1e-9f; });
  }
}

TEST(RmsNormThreads, AnyNumberOfThreadsGivesTheSameBits) {
  for (const RmsNormProblem& problem :
       {problem_of(200, 300), problem_of(1, 5000), problem_of(3000, 1)}) {
    for (const std::string backend : {"cpu_simd", "cpu_reference"}) {
      const RmsNormCase wanted(problem, 0);
      fill(wanted);
      wanted.run_forward(backend, 1);
      wanted.run_backward(backend, 1, true);
      for (const int threads : {2, 3, 7}) {
        const RmsNormCase given(problem, 0);
        given.copy_inputs(wanted);
        given.run_forward(backend, threads);
        given.run_backward(backend, threads, true);
        given.expect_same_outputs(
            wanted, backend + ", threads " + std::to_string(threads) + ": " + describe(problem));
      }
    }
  }
}

TEST(RmsNormThreads, ManyCallersOfOnePlanGetTheBitsOfOne) {
  const RmsNormProblem problem = problem_of(130, 257);
  const RmsNormForwardPlan forward = plan_rms_norm_forward(problem, {"", 3});
  const RmsNormBackwardPlan backward = plan_rms_norm_backward(problem, {"", 3});
  const RmsNormCase wanted(problem, 0);
  fill(wanted);
  const auto run_both = [&](const RmsNormCase& test) {
    const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
    run(forward, test.forward_args(), {workspace.data(), workspace.bytes()});
    run(backward, test.backward_args(true), {workspace.data(), workspace.bytes()});
  };
  run_both(wanted);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        const RmsNormCase given(problem, 0);
        given.copy_inputs(wanted);
        run_both(given);
        given.expect_same_outputs(wanted, describe(problem));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace octet
