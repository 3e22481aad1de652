// The number of threads and concurrent callers never change a bit.
#include "ops/quantize/paths.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace octet {
namespace {

QuantizeProblem dual(std::int64_t rows, std::int64_t cols) {
  QuantizeProblem problem{.rows = rows, .cols = cols, .transposed_block = kBlock1x128};
  return problem;
}

void fill(Input& input, unsigned seed) {
  std::mt19937 random(seed);
  for (std::int64_t r = 0; r < input.view().rows(); ++r) {
    for (std::int64_t c = 0; c < input.view().cols(); ++c) {
      input.set(r, c, static_cast<float>(static_cast<std::int32_t>(random())));
    }
  }
}

bool equal(const ForeignCopies& a, const ForeignCopies& b) {
  return a.out.values() == b.out.values() && a.out.scale_bits() == b.out.scale_bits() &&
         a.transposed.values() == b.transposed.values() &&
         a.transposed.scale_bits() == b.transposed.scale_bits();
}

TEST(QuantizeThreads, AnyNumberOfThreadsGivesTheSameBits) {
  for (const QuantizeProblem& problem :
       {dual(700, 900), dual(1, 20000), dual(20000, 1), dual(129, 127)}) {
    Input input(problem.rows, problem.cols, problem.input_dtype);
    fill(input, 3);
    for (Path path : all_paths()) {
      const ForeignCopies wanted(problem);
      quantize_by(path, problem, wanted.args(input.view()), 1);
      for (int threads : {2, 3, 7}) {
        const ForeignCopies got(problem);
        quantize_by(path, problem, got.args(input.view()), threads);
        EXPECT_TRUE(equal(got, wanted))
            << name(path) << ", " << threads << " threads: " << describe(problem);
      }
    }
  }
}

TEST(QuantizeThreads, ManyCallersOfOnePlanGetTheBitsOfOne) {
  const QuantizeProblem problem = dual(300, 500);
  const QuantizePlan plan = plan_quantize(problem, {"", 3});
  Input input(problem.rows, problem.cols, problem.input_dtype);
  fill(input, 4);
  const ForeignCopies wanted(problem);
  run(plan, wanted.args(input.view()));
  constexpr int kCallers = 8;
  std::vector<int> different(kCallers, 0);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 5; ++i) {
        const ForeignCopies got(problem);
        run(plan, got.args(input.view()));
        if (!equal(got, wanted)) ++different[static_cast<std::size_t>(caller)];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int count : different) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace octet
