// The launches and bytes a plan reports, counted by hand for M = 256, F = 128, K = 384, and its
// name.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"
#include "support/environment.hpp"
#include "support/simd.hpp"

namespace octet::testing {
namespace {

constexpr std::int64_t kM = 256, kF = 128, kK = 384;
// Bytes of values and f32 scales.
constexpr std::int64_t rows_of_128(std::int64_t rows, std::int64_t cols) {
  return rows * cols + rows * (cols / 128) * 4;
}
constexpr std::int64_t squares(std::int64_t rows, std::int64_t cols) {
  return rows * cols + (rows / 128) * (cols / 128) * 4;
}
constexpr std::int64_t bf16(std::int64_t rows, std::int64_t cols) { return rows * cols * 2; }

GatedMlpProblem problem_to_count() {
  GatedMlpProblem problem{.m = kM, .f = kF, .k = kK};
  problem.fp8 = problem.down = true;
  problem.unfused = true;
  return problem;
}

TEST(GatedMlpCost, ForwardCountsEveryTensorOfEveryLaunch) {
  const GatedMlpCost given = cost(plan_gated_mlp_forward(problem_to_count()));
  const std::int64_t casts = bf16(kM, kK) + rows_of_128(kM, kK) + rows_of_128(kK, kM) +  // x
                             bf16(2 * kF, kK) + 2 * squares(2 * kF, kK) +  // w_gate_up
                             bf16(kM, kF) + rows_of_128(kM, kF) + rows_of_128(kF, kM) +  // h
                             bf16(kK, kF) + 2 * squares(kK, kF);                         // w_down
  const std::int64_t products = rows_of_128(kM, kK) + squares(2 * kF, kK) +
                                bf16(kM, 2 * kF) +                                     // gate_up
                                rows_of_128(kM, kF) + squares(kK, kF) + bf16(kM, kK);  // y
  const std::int64_t activation = bf16(kM, 2 * kF) + bf16(kM, kF);
  EXPECT_EQ(given.launches, 7);
  EXPECT_EQ(given.bytes, casts + products + activation);
}

TEST(GatedMlpCost, BackwardCountsWhatIsAddedToTwice) {
  GatedMlpProblem problem = problem_to_count();
  const GatedMlpCost given = cost(plan_gated_mlp_backward(problem));
  const std::int64_t casts = bf16(kM, kK) + rows_of_128(kM, kK) + rows_of_128(kK, kM) +  // dy
                             bf16(kM, 2 * kF) + rows_of_128(kM, 2 * kF) +
                             rows_of_128(2 * kF, kM);  // d_gate_up
  const std::int64_t products =
      rows_of_128(kM, kK) + squares(kF, kK) + bf16(kM, kF) +             // dh
      rows_of_128(kK, kM) + rows_of_128(kF, kM) + bf16(kK, kF) +         // dw_down
      rows_of_128(kM, 2 * kF) + squares(kK, 2 * kF) + bf16(kM, kK) +     // dx
      rows_of_128(2 * kF, kM) + rows_of_128(kK, kM) + bf16(2 * kF, kK);  // dw_gate_up
  const std::int64_t activation = bf16(kM, kF) + 2 * bf16(kM, 2 * kF);
  EXPECT_EQ(given.launches, 7);
  EXPECT_EQ(given.bytes, casts + products + activation);
  problem.accumulate_dw = true;
  EXPECT_EQ(cost(plan_gated_mlp_backward(problem)).bytes,
            given.bytes + bf16(kK, kF) + bf16(2 * kF, kK));
}

// A scale per row of each copy, and one of each.
TEST(GatedMlpCost, CountsTheScalesOfEveryGranularity) {
  GatedMlpProblem problem = problem_to_count();
  problem.granularity = Granularity::tensorwise;
  const GatedMlpCost tensors = cost(plan_gated_mlp_forward(problem));
  // x, w_gate_up, h and w_down are cast, both ways, and four operands are multiplied.
  const std::int64_t cast_values = kM * kK + 2 * kF * kK + kM * kF + kK * kF;
  const std::int64_t multiplied_values = cast_values;
  const std::int64_t plain = bf16(kM, kK) + bf16(2 * kF, kK) + bf16(kM, kF) +
                             bf16(kK, kF) +                     // cast
                             bf16(kM, 2 * kF) + bf16(kM, kK) +  // products
                             bf16(kM, 2 * kF) + bf16(kM, kF);   // activation
  EXPECT_EQ(tensors.launches, 7);
  EXPECT_EQ(tensors.bytes, plain + 2 * cast_values + multiplied_values + (4 * 2 + 4) * 4);
  problem.granularity = Granularity::rowwise;
  const GatedMlpCost rows = cost(plan_gated_mlp_forward(problem));
  const std::int64_t cast_rows = kM + kK + 2 * kF + kK + kM + kF + kK + kF;
  const std::int64_t multiplied_rows = kM + 2 * kF + kM + kK;
  EXPECT_EQ(rows.launches, 7);
  EXPECT_EQ(rows.bytes,
            plain + 2 * cast_values + multiplied_values + (cast_rows + multiplied_rows) * 4);
}

struct Saved {
  std::int64_t launches;
  std::int64_t bytes;
};

// Launches and bytes that the fused plan saves.
template <class Plan>
Saved saved_by_fusion(Plan (*plan)(const GatedMlpProblem&, const Fp8LinearOptions&)) {
  GatedMlpProblem problem = problem_to_count();
  const GatedMlpCost unfused = cost(plan(problem, {}));
  problem.unfused = false;
  const GatedMlpCost fused = cost(plan(problem, {}));
  return {unfused.launches - fused.launches, unfused.bytes - fused.bytes};
}

// In each pass, one launch less, and the 16-bit tensor is neither written nor read.
TEST(GatedMlpCost, FusionSavesALaunchAndATensorEachWay) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2: nothing fuses";
  const Saved forward = saved_by_fusion(plan_gated_mlp_forward);
  EXPECT_EQ(forward.launches, 1);
  EXPECT_EQ(forward.bytes, 2 * bf16(kM, kF));
  const Saved backward = saved_by_fusion(plan_gated_mlp_backward);
  EXPECT_EQ(backward.launches, 1);
  EXPECT_EQ(backward.bytes, 2 * bf16(kM, 2 * kF));
}

TEST(GatedMlpCost, CountsTheCastWhereNoImplementationFuses) {
  const ScopedVariable forced("OCTET_GATED_ACTIVATION_BACKEND", "fp8:unfused");
  GatedMlpProblem problem = problem_to_count();
  problem.unfused = false;
  EXPECT_NE(plan_gated_mlp_forward(problem).implementation.find("activation=unfused"),
            std::string::npos);
  const Saved forward = saved_by_fusion(plan_gated_mlp_forward);
  EXPECT_EQ(forward.launches, 0);
  EXPECT_EQ(forward.bytes, 0);
  const Saved backward = saved_by_fusion(plan_gated_mlp_backward);
  EXPECT_EQ(backward.launches, 0);
  EXPECT_EQ(backward.bytes, 0);
}

TEST(GatedMlpCost, AnEmptyPlanCostsNothing) {
  EXPECT_EQ(cost(GatedMlpForwardPlan{}).launches, 0);
  EXPECT_EQ(cost(GatedMlpBackwardPlan{}).bytes, 0);
}

TEST(GatedMlp, DescribesWhatIsNotTheDefault) {
  GatedMlpProblem problem{.m = 8192, .f = 14336, .k = 4096};
  EXPECT_EQ(describe(problem),
            "gated-mlp --shape 8192x14336x4096 --dtype bf16 --activation silu --device cpu");
  problem.fp8 = problem.down = problem.unfused = problem.accumulate_dw = problem.pow2_scales = true;
  problem.activation = GateActivation::gelu_tanh;
  problem.dtype = Dtype::f16;
  problem.dw_dtype = Dtype::f32;
  problem.grad_format = Dtype::e5m2;
  problem.wgrad_blocks = WgradBlocks::square;
  problem.amax_floor = 0.5f;
  EXPECT_EQ(describe(problem),
            "gated-mlp --shape 8192x14336x4096 --dtype fp8 --down --activation gelu_tanh --unfused "
            "--input f16 --grad-format e5m2 --wgrad-blocks 2d --amax-floor 0.5 --pow2-scales "
            "--dw f32 --accumulate-dw --device cpu");
}

}  // namespace
}  // namespace octet::testing
