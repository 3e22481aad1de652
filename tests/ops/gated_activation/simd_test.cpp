// Each instruction set against the reference, within a few roundings.
#include "core/message.hpp"
#include "ops/gated_activation/case.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace octet {
namespace {

// One rounding of the dtype, plus 1e-6 (8 roundings of f32) of the activation's factor.
struct Bound {
  double relative;
  double smallest;  // half the spacing of subnormals, twice
};
Bound bound_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return {1.0 / 128, 1e-40};
    case Dtype::f16: return {1.0 / 1024, 6e-8};
    default: return {1e-6, 1e-37};
  }
}

bool close(double given, double wanted, double factor, Dtype dtype) {
  const Bound bound = bound_of(dtype);
  return std::fabs(given - wanted) <=
         bound.relative * std::fabs(wanted) + 1e-6 * std::fabs(factor) + bound.smallest;
}

void expect_close(const GatedActivationCase& given, const GatedActivationCase& wanted,
                  const std::string& path) {
  const GatedActivationProblem& problem = wanted.problem;
  const std::string repeat = path + ": octet check " + describe(problem);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    double magnitude = 0;
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const double g = std::max(1.0, std::fabs(double{at(wanted.gate(), r, c)}));
      const double up = at(wanted.up(), r, c);
      const double dy = at(wanted.dy(), r, c);
      const double p = wanted.weight(r);
      const auto expect = [&](const char* tensor, const TensorView& x, const TensorView& ref,
                              double factor) {
        ASSERT_TRUE(close(at(x, r, c), at(ref, r, c), factor, problem.dtype))
            << repeat << "\n"
            << tensor << " at " << r << ", " << c << " is " << at(x, r, c) << ", not "
            << at(ref, r, c) << "; gate " << at(wanted.gate(), r, c);
      };
      expect("y", given.y(), wanted.y(), g * up * p);
      expect("dgate", given.dgate(), wanted.dgate(), dy * up * p);
      expect("dup", given.dup(), wanted.dup(), g * dy * p);
      magnitude += std::fabs(g * g * up * dy);
    }
    if (problem.row_weight) {
      ASSERT_NEAR(given.d_weight(r), wanted.d_weight(r), 2e-6 * magnitude) << repeat;
    }
  }
}

TEST(GatedActivationSimd, IsCloseToTheReference) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  constexpr std::int64_t kCols[] = {1, 7, 16, 33, 64, 95, 128, 513};
  std::uint64_t seed = 0;
  for (const GateActivation activation : kActivations) {
    for (const Dtype dtype : kFloats) {
      for (const std::int64_t cols : kCols) {
        ++seed;
        const GatedActivationProblem problem{7, cols, dtype, activation, seed % 2 == 0};
        const Lie lie = seed % 3 == 0 ? Lie::as_halves : Lie::apart;
        const GatedActivationCase wanted(problem, lie, 1);
        wanted.fill(seed, 4);
        wanted.run_both("cpu_reference");
        for (const InstructionSet instructions : instruction_sets()) {
          const GatedActivationCase given(problem, lie, 1);
          given.fill(seed, 4);
          given.run_both(instructions);
          expect_close(given, wanted, text(name(instructions), ", seed ", seed));
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// f32 values over the whole range: in the tails the relative error must stay small as well.
TEST(GatedActivationSimd, KeepsSmallValuesInTheTails) {
  for (const GateActivation activation : {GateActivation::silu, GateActivation::gelu_erf}) {
    const GatedActivationProblem problem{1, 4096, Dtype::f32, activation};
    const GatedActivationCase wanted(problem);
    const GatedActivationCase given(problem);
    for (const GatedActivationCase* test : {&wanted, &given}) {
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        set(test->gate(), 0, c, -static_cast<float>(c) * 9 / 4096);
        set(test->up(), 0, c, 1);
        set(test->dy(), 0, c, 1);
      }
    }
    wanted.run_both("cpu_reference");
    for (const InstructionSet instructions : instruction_sets()) {
      given.run_both(instructions);
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        const float ref = at(wanted.y(), 0, c);
        ASSERT_NEAR(at(given.y(), 0, c), ref, 4e-6 * std::fabs(ref))
            << name(activation) << " of " << at(given.gate(), 0, c) << ", " << name(instructions);
      }
    }
  }
}

// docs/numerics.md: gate^2 is rounded once and 2 gate is exact, so every implementation gives the
// bits of these f32 operations, and f32 outputs are within three roundings.
TEST(GatedActivationSimd, ReluSquaredIsRoundedOncePerOperation) {
  constexpr double kRounding = 0x1p-24;
  const GatedActivationProblem problem{5, 513, Dtype::f32, GateActivation::relu_squared, true};
  const GatedActivationCase test(problem);
  test.fill(11, 100);
  const auto expect_roundings = [&](const std::string& path) {
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        const float up = at(test.up(), r, c), dy = at(test.dy(), r, c), p = test.weight(r);
        const float g = std::max(0.0f, at(test.gate(), r, c));
        const float square = g * g, weighted = dy * p;
        ASSERT_EQ(at(test.y(), r, c), square * up * p) << path << ", gate " << g;
        ASSERT_EQ(at(test.dgate(), r, c), weighted * up * (2 * g)) << path << ", gate " << g;
        ASSERT_EQ(at(test.dup(), r, c), weighted * square) << path << ", gate " << g;
        const double exact = double{g} * g * up * p;
        ASSERT_NEAR(at(test.y(), r, c), exact, 3 * kRounding * std::fabs(exact)) << path;
      }
    }
  };
  test.run_both("cpu_reference");
  expect_roundings("cpu_reference");
  for (const InstructionSet instructions : instruction_sets()) {
    test.run_both(instructions);
    expect_roundings(name(instructions));
  }
}

// Large enough for streaming stores, which must give the bits of small pieces.
TEST(GatedActivationSimd, StreamsTheSameBits) {
  const GatedActivationProblem problem{1030, 4096, Dtype::bf16, GateActivation::silu, true};
  const GatedActivationCase streamed(problem);
  const GatedActivationCase stored(problem, Lie::apart, 1);  // rows are unaligned
  streamed.fill(1);
  stored.fill(1);
  streamed.run_both("cpu_simd");
  stored.run_both("cpu_simd");
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    const auto same_row = [&](const TensorView& x, const TensorView& y) {
      const auto row = [&](const TensorView& view) {
        return static_cast<const char*>(view.data) + r * view.strides[0] * 2;
      };
      return std::memcmp(row(x), row(y), static_cast<std::size_t>(problem.cols) * 2) == 0;
    };
    ASSERT_TRUE(same_row(streamed.y(), stored.y())) << r;
    ASSERT_TRUE(same_row(streamed.dgate(), stored.dgate())) << r;
    ASSERT_TRUE(same_row(streamed.dup(), stored.dup())) << r;
    ASSERT_EQ(streamed.d_weight(r), stored.d_weight(r)) << r;
  }
}

}  // namespace
}  // namespace octet
