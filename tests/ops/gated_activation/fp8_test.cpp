// FP8 outputs equal, bit for bit, quantize of the plain outputs of the same kernels: y, and dgate
// next to dup in one tensor, where a block may hold columns of both.
#include "check/judge/compare_outputs.hpp"
#include "core/message.hpp"
#include "ops/gated_activation/case.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

// Both copies of a [rows, cols] output, including those that are not wanted.
struct Copies {
  QuantizedTensor out;
  QuantizedTensor transposed;

  Copies(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols)
      : out(rows, cols, fp8.format, fp8.block.value_or(kBlock1x128)),
        transposed(cols, rows, fp8.format, fp8.transposed_block.value_or(kBlock1x128)) {}
  Fp8Copies views() const { return {out, transposed}; }
};

void quantize(const TensorView& output, const Fp8Output& fp8, const Copies& copies) {
  const QuantizeProblem problem{output.rows(),  output.cols(),  output.dtype,
                                fp8.format,     fp8.block,      fp8.transposed_block,
                                fp8.amax_floor, fp8.pow2_scales};
  run(plan_quantize(problem), {output, copies.out, copies.transposed});
}

void expect_same(const Fp8Output& fp8, const Copies& given, const Copies& wanted,
                 const std::string& what) {
  if (fp8.block) {
    EXPECT_EQ(count_differences(given.out, wanted.out), 0) << what;
  }
  if (fp8.transposed_block) {
    EXPECT_EQ(count_differences(given.transposed, wanted.transposed), 0) << what;
  }
}

Fp8Output options_of(std::uint64_t seed) {
  Fp8Output fp8;
  if (seed % 2 == 1) fp8.format = Dtype::e5m2;
  if (seed % 5 == 1) fp8.block = kBlock128x128;
  if (seed % 5 == 2) fp8.block.reset();
  if (seed % 7 == 1) fp8.transposed_block = kBlock128x128;
  if (seed % 5 != 2 && seed % 7 == 2) fp8.transposed_block.reset();
  fp8.pow2_scales = seed % 3 == 1;
  if (seed % 4 == 1) fp8.amax_floor = 2;
  return fp8;
}

TEST(GatedActivationFp8, HasTheBitsOfThePlainOutputsQuantised) {
  constexpr std::int64_t kRows[] = {1, 127, 128, 129, 260};
  constexpr std::int64_t kCols[] = {1, 33, 64, 128, 200, 256, 513};
  for (std::uint64_t seed = 0; seed < 70; ++seed) {
    GatedActivationProblem problem{kRows[seed % 5], kCols[seed % 7], kFloats[seed % 3],
                                   kActivations[seed % 4], seed % 2 == 0};
    const Fp8Output fp8 = options_of(seed);
    for (const InstructionSet instructions : instruction_sets()) {
      problem.fp8.reset();
      const GatedActivationCase plain(problem, Lie::as_halves);
      plain.fill(seed);
      plain.run_both(instructions);
      const Copies wanted_y(fp8, problem.rows, problem.cols);
      const Copies wanted_gradients(fp8, problem.rows, 2 * problem.cols);
      TensorView both = plain.dgate();
      both.shape[1] = 2 * problem.cols;
      quantize(plain.y(), fp8, wanted_y);
      quantize(both, fp8, wanted_gradients);

      problem.fp8 = fp8;
      const GatedActivationCase fused(problem);
      fused.fill(seed);
      const Copies y(fp8, problem.rows, problem.cols);
      const Copies gradients(fp8, problem.rows, 2 * problem.cols);
      const PlanOptions options{"cpu_simd", 3};
      const Buffer workspace(plan_gated_activation_backward(problem, options).workspace_bytes);
      const RunContext context{{workspace.data(), workspace.bytes()}, 3, nullptr};
      GatedActivationForwardArgs forward = fused.forward_args(y.views());
      GatedActivationBackwardArgs backward = fused.backward_args(gradients.views());
      if (!problem.row_weight) forward.row_weight = backward.row_weight = {};
      gated_activation_forward_cpu_simd(problem, forward, context, instructions);
      gated_activation_backward_cpu_simd(problem, backward, context, instructions);

      const std::string repeat =
          text(name(instructions), ", seed ", seed, ": octet check ", describe(problem));
      expect_same(fp8, y, wanted_y, "y, " + repeat);
      expect_same(fp8, gradients, wanted_gradients, "gradients, " + repeat);
      for (std::int64_t r = 0; problem.row_weight && r < problem.rows; ++r) {
        ASSERT_EQ(fused.d_weight(r), plain.d_weight(r)) << repeat;
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(GatedActivationFp8, UnfusedHasTheBitsOfTheFusedOne) {
  const GatedActivationProblem problem{150,  200,        Dtype::bf16, GateActivation::silu,
                                       true, Fp8Output{}};
  const GatedActivationCase test(problem);
  test.fill(5);
  const Copies copies[2] = {{*problem.fp8, 150, 200}, {*problem.fp8, 150, 200}};
  const Copies gradients[2] = {{*problem.fp8, 150, 400}, {*problem.fp8, 150, 400}};
  constexpr const char* kBackends[2] = {"cpu_simd", "unfused"};
  for (int i = 0; i < 2; ++i) {
    const auto forward = plan_gated_activation_forward(problem, {kBackends[i], 2});
    const auto backward = plan_gated_activation_backward(problem, {kBackends[i], 2});
    const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
    run(forward, test.forward_args(copies[i].views()), {workspace.data(), workspace.bytes()});
    run(backward, test.backward_args(gradients[i].views()), {workspace.data(), workspace.bytes()});
  }
  expect_same(*problem.fp8, copies[0], copies[1], "y");
  expect_same(*problem.fp8, gradients[0], gradients[1], "gradients");
}

}  // namespace
}  // namespace octet
