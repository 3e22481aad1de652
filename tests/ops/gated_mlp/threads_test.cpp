// One plan serves many threads, each with its own memory.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"

#include <thread>
#include <vector>

namespace octet::testing {
namespace {

TEST(GatedMlpThreads, OnePlanServesThemAll) {
  GatedMlpProblem problem = small_problem();
  problem.m = 20;
  problem.f = 40;
  const Layer alone(problem);
  alone.run();
  const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem);
  const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem);
  std::vector<Layer> layers;
  for (int i = 0; i < 4; ++i) layers.emplace_back(problem);
  std::vector<std::thread> threads;
  for (const Layer& layer : layers) {
    threads.emplace_back([&] {
      const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
      for (int repeat = 0; repeat < 3; ++repeat) {
        run(forward, layer.forward_args, {workspace.data(), workspace.bytes()});
        run(backward, layer.backward_args, {workspace.data(), workspace.bytes()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Layer& layer : layers) {
    expect_equal_results(alone, layer);
  }
}

TEST(GatedMlpThreads, TheirNumberChangesNoBit) {
  const GatedMlpProblem problem = small_problem();
  const Layer one(problem);
  const Layer many(problem);
  const auto run_with = [&](const Layer& layer, int threads) {
    const Fp8LinearOptions options{"", "", threads};
    const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem, options);
    const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem, options);
    const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
    run(forward, layer.forward_args, {workspace.data(), workspace.bytes()});
    run(backward, layer.backward_args, {workspace.data(), workspace.bytes()});
  };
  run_with(one, 1);
  run_with(many, 5);
  expect_equal_results(one, many);
}

}  // namespace
}  // namespace octet::testing
