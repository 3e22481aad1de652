// Each instruction set against the reference, in every bit; all NaNs count as equal.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "core/numeric.hpp"
#include "cpu/outputs.hpp"
#include "ops/rms_norm/case.hpp"
#include "ops/rms_norm/cpu_simd.hpp"
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace octet {
namespace {

RmsNormProblem random_problem(Random& random) {
  constexpr std::int64_t kCols[] = {1,   2,   3,   7,   8,   15,  16,  17,  31,  32,  33,  63,  64,
                                    100, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1000};
  constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  RmsNormProblem problem{.rows = static_cast<std::int64_t>(random() % 140),
                         .cols = any_of(kCols, random),
                         .dtype = any_of(kDtypes, random),
                         .weight_dtype = any_of(kDtypes, random),
                         .dg_dtype = any_of(kDtypes, random)};
  problem.eps = any_of({0.0f, 1e-6f, 1.0f}, random);
  problem.residual = random() % 2 == 0;
  problem.one_plus_weight = random() % 2 == 0;
  problem.training = random() % 4 != 0;
  return problem;
}

enum class Data { normal, tiny, huge, zeros, some_non_finite };

float random_value(Data data, Random& random) {
  std::normal_distribution<float> normal;
  switch (data) {
    case Data::tiny: return normal(random) * 1e-23f;
    case Data::huge: return normal(random) * 1e19f;
    case Data::zeros: return random() % 2 == 0 ? 0.0f : -0.0f;
    case Data::some_non_finite:
      if (random() % 300 == 0) return std::numeric_limits<float>::quiet_NaN();
      if (random() % 300 == 0) return -std::numeric_limits<float>::infinity();
      return normal(random);
    default: return normal(random);
  }
}

void fill_with(const RmsNormCase& test, Data data, Random& random) {
  for (const PitchedTensor* tensor : test.inputs()) {
    tensor->fill([&] { return random_value(data, random); });
  }
}

TEST(RmsNormSimd, EqualsTheReferenceInEveryBitOnRandomProblems) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const RmsNormProblem problem = random_problem(random);
    const std::int64_t gap = any_of<std::int64_t>({0, 0, 1, 8}, random);
    const RmsNormCase wanted(problem, gap);
    fill_with(wanted, static_cast<Data>(seed % 5), random);
    const bool dsum = random() % 2 == 0;
    wanted.run_forward("cpu_reference", 2);
    wanted.run_backward("cpu_reference", 2, dsum);
    for (const InstructionSet instructions : instruction_sets()) {
      const RmsNormCase given(problem, gap);
      given.copy_inputs(wanted);
      given.run_by(instructions, dsum);
      given.expect_same_outputs(
          wanted, text(name(instructions), ", seed ", seed, ": octet check ", describe(problem)));
      if (HasFailure()) return;
    }
  }
}

// Large enough for streaming stores.
TEST(RmsNormSimd, EqualsTheReferenceWhereLargeOutputsAreStreamed) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    RmsNormProblem problem;
    problem.dtype = dtype;
    problem.rows = dtype == Dtype::f32 ? 520 : 1040;
    problem.cols = dtype == Dtype::f32 ? 4128 : 4096;
    problem.residual = true;
    const RmsNormCase wanted(problem, 0);
    Random random(7);
    for (const PitchedTensor* tensor : wanted.inputs()) {
      tensor->fill([&] { return static_cast<float>(static_cast<std::int32_t>(random())) * 1e-9f; });
    }
    wanted.run_forward("cpu_reference", 2);
    wanted.run_backward("cpu_reference", 2, true);
    for (const InstructionSet instructions : instruction_sets()) {
      const RmsNormCase given(problem, 0);
      for (const PitchedTensor* output : {&given.y, &given.sum, &given.dx, &given.dresidual}) {
        ASSERT_TRUE(streams(output->view())) << describe(problem);
      }
      given.copy_inputs(wanted);
      given.run_by(instructions, true);
      given.expect_same_outputs(wanted, text(name(instructions), ": ", describe(problem)));
    }
  }
}

}  // namespace
}  // namespace octet
