// Each instruction set against the reference, bit for bit, and with any number of threads.
#include "ops/adamw/case.hpp"

#include <limits>
#include <thread>

namespace octet {
namespace {

TEST(AdamWSimd, EqualsTheReference) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  for (const std::int64_t count : {1, 15, 512, 1031}) {
    for_every_problem(count, [&](const AdamWProblem& problem) {
      const std::int64_t skip = count % 2;  // off every boundary
      const auto seed = static_cast<std::uint64_t>(count);
      const AdamWCase wanted(problem, seed, skip);
      wanted.run_on({"cpu_reference"});
      for (const InstructionSet instructions : instruction_sets()) {
        const AdamWCase given(problem, seed, skip);
        adamw_cpu_simd(problem, given.args, RunContext{}, instructions);
        expect_equal(given, wanted, name(instructions));
      }
    });
  }
}

// Infinities, NaN, zeros of both signs, subnormals and the largest values, each with each.
TEST(AdamWSimd, EqualsTheReferenceForSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValues[] = {0,     -0.0f, 1,      -1,        1e-40f,     -1e-40f, 1e-20f,
                               1e20f, 3e38f, -3e38f, kInfinity, -kInfinity, NAN};
  constexpr std::int64_t kCount = std::size(kValues);
  for_every_problem(kCount * kCount * 4, [&](const AdamWProblem& problem) {
    const auto fill = [&](const AdamWCase& one) {
      for (std::int64_t i = 0; i < problem.count; ++i) {
        const float a = kValues[i % kCount], b = kValues[i / kCount % kCount];
        const bool swap = i / (kCount * kCount) % 2 != 0;
        store_f32(one.args.g.data, i, problem.grad_dtype, a);
        store_f32(one.args.m.data, i, problem.moments_dtype, swap ? b : 0);
        store_f32(one.args.v.data, i, problem.moments_dtype, swap ? 1 : std::fabs(b));
        const TensorView& w = problem.master ? one.args.master : one.args.w;
        store_f32(w.data, i, w.dtype, i % 3 == 0 ? b : 1);
      }
    };
    const AdamWCase wanted(problem);
    fill(wanted);
    wanted.run_on({"cpu_reference"});
    for (const InstructionSet instructions : instruction_sets()) {
      const AdamWCase given(problem);
      fill(given);
      adamw_cpu_simd(problem, given.args, RunContext{}, instructions);
      expect_equal(given, wanted, name(instructions));
    }
  });
}

TEST(AdamWThreads, TheirNumberChangesNoBit) {
  const AdamWProblem problem{100003, Dtype::bf16, Dtype::bf16, Dtype::f32, true, true};
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    const AdamWCase one(problem), many(problem);
    one.run_on({backend, 1});
    many.run_on({backend, 5});
    expect_equal(many, one, backend);
  }
}

TEST(AdamWThreads, OnePlanServesThemAll) {
  const AdamWProblem problem{3000, Dtype::bf16, Dtype::f32, Dtype::bf16};
  const AdamWCase alone(problem);
  alone.run_on({});
  const AdamWPlan plan = plan_adamw(problem);
  std::vector<AdamWCase> cases;
  for (int i = 0; i < 4; ++i) cases.emplace_back(problem);
  std::vector<std::thread> threads;
  for (const AdamWCase& one : cases) threads.emplace_back([&] { run(plan, one.args); });
  for (std::thread& thread : threads) thread.join();
  for (const AdamWCase& one : cases) expect_equal(one, alone, "a thread");
}

}  // namespace
}  // namespace octet
