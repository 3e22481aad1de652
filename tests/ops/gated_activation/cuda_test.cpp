// The gates on a Hopper GPU: every activation and dtype, tails in both directions, FP8 copies.
#include "ops/gated_activation/case.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

constexpr std::int64_t kCols[] = {33, 128, 513, 4096};
constexpr std::int64_t kRows[] = {1, 511, 130};

void expect_pass(const GatedActivationProblem& problem, const char* backend = "") {
  DataOptions options;
  options.backend = backend;
  expect_pass(check_gated_activation(problem, options), describe(problem));
}

TEST(GatedActivationCuda, PassesTheGates) {
  OCTET_NEEDS_HOPPER();
  for (const GateActivation activation : kActivations) {
    for (const Dtype dtype : kFloats) {
      for (const std::int64_t cols : kCols) {
        for (const std::int64_t rows : kRows) {
          GatedActivationProblem problem{rows, cols, dtype, activation, rows == 511};
          problem.device = OnCuda::kDevice;
          expect_pass(problem);
        }
      }
    }
  }
}

TEST(GatedActivationCuda, WritesFp8AsTheQuantiserDoes) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t cols : kCols) {
    for (const std::int64_t rows : kRows) {
      GatedActivationProblem problem{rows,        cols,       Dtype::bf16, GateActivation::silu,
                                     rows == 130, Fp8Output{}};
      problem.device = OnCuda::kDevice;
      expect_pass(problem);
      expect_pass(problem, "unfused");
      problem.fp8->format = Dtype::e5m2;
      problem.fp8->pow2_scales = true;
      problem.fp8->transposed_block = kBlock128x128;
      expect_pass(problem);
    }
  }
}

TEST(GatedActivationCuda, PassesTheGatesOnALayer) {
  OCTET_NEEDS_HOPPER();
  GatedActivationProblem problem{8192, 14336, Dtype::bf16, GateActivation::silu, true};
  problem.device = OnCuda::kDevice;
  expect_pass(problem);
  problem.fp8 = Fp8Output{};
  expect_pass(problem);
}

// As moe_mlp calls it, with groups of all lengths; rows behind the last group are NaN in the inputs.
TEST(GatedActivationCuda, PassesTheGatesOverGroups) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t cols : {128, 256, 1408}) {
    for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
      GatedActivationProblem problem{500,  cols,       Dtype::bf16, GateActivation::silu,
                                     true, Fp8Output{}};
      problem.groups = 6;
      problem.tail = tail;
      problem.device = OnCuda::kDevice;
      if (tail == GroupTail::zero) problem.fp8->transposed_block = kBlock128x128;
      DataOptions options;
      options.group_spread.kind = GroupSpread::Kind::given;
      options.group_spread.sizes = {0, 1, 127, 128, 129, 40};
      expect_pass(check_gated_activation(problem, options), describe(problem));
    }
  }
}

}  // namespace
}  // namespace octet::testing
