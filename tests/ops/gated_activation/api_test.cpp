// The plan says what runs. Bad input is refused with the argument, what was given and what was
// wanted.
#include "ops/gated_activation/case.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

GatedActivationProblem small_problem() { return {4, 40, Dtype::bf16, GateActivation::silu, true}; }

TEST(GatedActivationPlan, ActivationsHaveNames) {
  for (const GateActivation activation : kActivations) {
    EXPECT_EQ(parse_gate_activation(name(activation)), activation);
  }
  EXPECT_EQ(name(GateActivation::gelu_tanh), "gelu_tanh");
  EXPECT_EQ(name(static_cast<GateActivation>(9)), "unknown activation");
  EXPECT_EQ(parse_gate_activation("swish"), std::nullopt);
  EXPECT_EQ(parse_gate_activation("unknown activation"), std::nullopt);
}

TEST(GatedActivationPlan, DescribesTheProblem) {
  EXPECT_EQ(describe(GatedActivationProblem{8192, 14336}),
            "gated-activation --shape 8192x14336 --activation silu --dtype bf16 --device cpu");
  GatedActivationProblem problem = small_problem();
  problem.fp8 = Fp8Output{Dtype::e5m2, kBlock1x128, std::nullopt, 0.5f, true};
  EXPECT_EQ(describe(problem),
            "gated-activation --shape 4x40 --activation silu --dtype bf16 --row-weight --fp8 e5m2 "
            "--block 1x128 --transposed-block none --amax-floor 0.5 --pow2-scales --device cpu");
}

TEST(GatedActivationPlan, NamesImplementationInstructionsAndThreads) {
  const auto plan = plan_gated_activation_forward(small_problem(), {"cpu_simd", 2});
  EXPECT_EQ(plan.implementation, "cpu_simd");
  EXPECT_EQ(plan.configuration, name(instruction_sets().back()) + " threads=2");
  EXPECT_EQ(plan.workspace_bytes, 0u);
  EXPECT_EQ(gated_activation_forward_implementations().back().name, std::string("cpu_reference"));
  EXPECT_EQ(gated_activation_backward_implementations().back().name, std::string("cpu_reference"));
  EXPECT_EQ(kGatedActivationForwardCpuSimd.refuse(small_problem(), Machine{}),
            "this CPU has no AVX2");
  EXPECT_EQ(kGatedActivationForwardUnfused.refuse(small_problem(), Machine{}),
            "there is nothing to fuse: no fp8 output is wanted");
}

TEST(GatedActivationPlan, NoRowsAreNoMistake) {
  GatedActivationProblem problem = small_problem();
  problem.rows = 0;
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    const TensorView rows = make_view(static_cast<void*>(nullptr), Dtype::bf16, {0, 40});
    const TensorView row = make_view(static_cast<void*>(nullptr), Dtype::f32, {0});
    run(plan_gated_activation_forward(problem, {backend, 2}), {rows, rows, row, rows, {}});
    run(plan_gated_activation_backward(problem, {backend, 2}),
        {rows, rows, rows, row, rows, rows, {}, row});
  }
}

TEST(GatedActivationRefuses, ProblemsItCannotMean) {
  const auto refused = [](auto change, ErrorCode code = ErrorCode::invalid_argument) {
    GatedActivationProblem problem = small_problem();
    change(problem);
    return refusal_of_both(problem, plan_gated_activation_forward, plan_gated_activation_backward,
                           code);
  };
  EXPECT_EQ(refused([](auto& p) { p.rows = -1; }),
            "gated_activation: rows must be at least 0, got -1");
  EXPECT_EQ(refused([](auto& p) { p.cols = 0; }),
            "gated_activation: cols must be at least 1, got 0");
  EXPECT_EQ(refused([](auto& p) { p.dtype = Dtype::e4m3; }),
            "gated_activation: dtype must be f32, f16 or bf16, got e4m3");
  EXPECT_EQ(
      refused([](auto& p) { p.activation = static_cast<GateActivation>(7); }),
      "gated_activation: activation must be silu, gelu_tanh, gelu_erf or relu_squared, got 7");
  EXPECT_EQ(refused([](auto& p) {
              p.rows = 0;
              p.fp8 = Fp8Output{};
            }),
            "gated_activation: rows must be at least 1, got 0");
  EXPECT_EQ(refused([](auto& p) { p.fp8 = Fp8Output{Dtype::bf16}; }),
            "gated_activation: format must be e4m3 or e5m2, got bf16");
  EXPECT_EQ(refused([](auto& p) { p.rows = p.cols = std::int64_t{1} << 40; }),
            "gated_activation: a tensor of 1099511627776 x 1099511627776 has more than 2^58 "
            "elements, the most "
            "that octet can address");
  EXPECT_NE(refused(
                [](auto& p) {
                  p.fp8 = Fp8Output{Dtype::e4m3, BlockShape{1, 64}};
                },
                ErrorCode::unsupported)
                .find("1xall, allx1, allxall, 1x32 or 32x32, got 1x64"),
            std::string::npos);
}

TEST(GatedActivationRefuses, ForwardArgumentsThatDoNotFit) {
  const GatedActivationCase test(small_problem());
  const auto plan = plan_gated_activation_forward(test.problem);
  const auto refused = [&](auto change) {
    GatedActivationForwardArgs args = test.forward_args();
    change(args);
    return refusal([&] { run(plan, args); });
  };
  EXPECT_EQ(refused([](auto& a) { a.gate.data = nullptr; }),
            "gated_activation: gate has a null pointer");
  EXPECT_EQ(refused([](auto& a) { a.up.shape[1] = 39; }),
            "gated_activation: up must be [rows, cols] = [4, 40], got [4, 39]");
  EXPECT_EQ(refused([](auto& a) { a.up.dtype = Dtype::f16; }),
            "gated_activation: up must be bf16, got f16");
  EXPECT_EQ(refused([](auto& a) { a.row_weight.shape[0] = 5; }),
            "gated_activation: row_weight must be [rows] = [4], got [5]");
  EXPECT_EQ(refused([](auto& a) { a.y = a.gate; }),
            "gated_activation: output y overlaps gate: their memory must be apart");
  EXPECT_EQ(
      refusal([&] { run(GatedActivationForwardPlan{}, test.forward_args()); }),
      "gated_activation_forward: the plan is empty: plan_gated_activation_forward() makes one "
      "from a problem");
  for (std::int64_t c = 0; c < 40; ++c) ASSERT_EQ(bits_of(at(test.y(), 3, c)), 0xA5A50000u);
}

TEST(GatedActivationRefuses, BackwardArgumentsThatDoNotFit) {
  const GatedActivationCase test(small_problem(), Lie::as_halves);
  const auto plan = plan_gated_activation_backward(test.problem);
  const auto refused = [&](auto change) {
    GatedActivationBackwardArgs args = test.backward_args();
    change(args);
    return refusal([&] { run(plan, args); });
  };
  EXPECT_EQ(refused([](auto& a) { a.dy.rank = 1; }),
            "gated_activation: dy must have rank 2, [rows, cols], got rank 1");
  EXPECT_EQ(refused([](auto& a) { a.dup.data = static_cast<char*>(a.dup.data) - 2; }),
            "gated_activation: output dup overlaps dgate: their memory must be apart");
  EXPECT_EQ(refused([](auto& a) { a.dgate = a.gate; }),
            "gated_activation: output dgate overlaps gate: their memory must be apart");
  EXPECT_EQ(
      refused([](auto& a) { a.d_row_weight = a.row_weight; }),
      "gated_activation: output d_row_weight overlaps row_weight: their memory must be apart");
}

TEST(GatedActivationRefuses, Fp8CopiesThatDoNotFit) {
  GatedActivationProblem problem = small_problem();
  problem.fp8 = Fp8Output{Dtype::e4m3, kBlock1x128, std::nullopt};
  const GatedActivationCase test(problem);
  const QuantizedTensor half(4, 40, Dtype::e4m3, kBlock1x128);
  const auto plan = plan_gated_activation_backward(problem);
  const Buffer workspace(plan.workspace_bytes);
  const auto backward = [&](std::size_t bytes) {
    run(plan, test.backward_args({half, {}}), {workspace.data(), bytes});
  };
  EXPECT_EQ(refusal([&] { backward(workspace.bytes()); }),
            "gated_activation: fp8.out must be [rows, 2 cols] = [4, 80], got [4, 40]");
  const QuantizedTensor whole(4, 80, Dtype::e4m3, kBlock1x128);
  EXPECT_NE(refusal([&] {
              run(plan, test.backward_args({whole, {}}));
            }).find("gated_activation: workspace must have "),
            std::string::npos);
}

}  // namespace
}  // namespace octet
