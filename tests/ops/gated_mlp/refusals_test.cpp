// Bad input is refused before anything is written, with what was given and what was wanted.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"
#include "support/refusal.hpp"

namespace octet::testing {
namespace {

std::string refused_problem(const auto& change, ErrorCode code = ErrorCode::invalid_argument) {
  GatedMlpProblem problem = small_problem();
  change(problem);
  const std::string backward = refusal([&] { (void)plan_gated_mlp_backward(problem); }, code);
  const std::string forward = refusal([&] { (void)plan_gated_mlp_forward(problem); }, code);
  EXPECT_EQ(forward, backward);
  return forward;
}

TEST(GatedMlpRefusals, NameTheFieldOfTheProblem) {
  EXPECT_EQ(refused_problem([](auto& p) { p.m = 0; }), "gated_mlp: M must be at least 1, got 0");
  EXPECT_EQ(refused_problem([](auto& p) { p.f = -1; }), "gated_mlp: F must be at least 1, got -1");
  EXPECT_EQ(refused_problem([](auto& p) { p.k = 0; }), "gated_mlp: K must be at least 1, got 0");
  EXPECT_EQ(refused_problem([](auto& p) { p.f = std::int64_t{1} << 62; }),
            "gated_mlp: a tensor of 2 x 4611686018427387904 has more than 2^58 elements, the most "
            "that octet can address");
  EXPECT_EQ(refused_problem([](auto& p) { p.dtype = Dtype::e4m3; }),
            "gated_mlp: dtype must be f32, f16 or bf16, got e4m3");
  EXPECT_EQ(refused_problem([](auto& p) { p.grad_format = Dtype::bf16; }),
            "gated_mlp: grad_format must be e4m3 or e5m2, got bf16");
  EXPECT_EQ(refused_problem([](auto& p) { p.activation = static_cast<GateActivation>(9); }),
            "gated_mlp: activation must be silu, gelu_tanh, gelu_erf or relu_squared, got 9");
  EXPECT_EQ(refused_problem([](auto& p) {
              p.fp8 = false;
              p.weights_quantized = true;
            }),
            "gated_mlp: weights_quantized needs fp8 = true");
  EXPECT_EQ(refused_problem([](auto& p) {
              p.fp8 = false;
              p.unfused = true;
            }),
            "gated_mlp: unfused needs fp8 = true");
  EXPECT_EQ(refused_problem(
                [](auto& p) {
                  p.dw_dtype = Dtype::f16;
                  p.accumulate_dw = true;
                },
                ErrorCode::unsupported),
            "gated_mlp: accumulate_dw needs an f32 or bf16 dw, got f16");
  GatedMlpProblem problem = small_problem();
  problem.training = false;
  EXPECT_EQ(refusal([&] { (void)plan_gated_mlp_backward(problem); }),
            "gated_mlp: backward needs training = true and need_dx or need_dw");
}

TEST(GatedMlpRefusals, NameTheArgumentOfForward) {
  Layer layer(small_problem());
  GatedMlpForwardArgs& args = layer.forward_args;
  const GatedMlpForwardArgs right = args;
  const auto message = [&] {
    std::string result = refusal([&] { layer.run_forward(); });
    args = right;
    return result;
  };
  const Tensor small(Dtype::bf16, {2, 2});
  args.x = {};
  EXPECT_EQ(message(), "gated_mlp_forward: x must have rank 2, [M, K], got rank 0");
  args.w_gate_up = layer.w_down;
  EXPECT_EQ(message(), "gated_mlp_forward: w_gate_up must be [2F, K] = [400, 136], got [136, 200]");
  args.w_down = small;
  EXPECT_EQ(message(), "gated_mlp_forward: w_down must be [K, F] = [136, 200], got [2, 2]");
  args.y = layer.h;
  EXPECT_EQ(message(), "gated_mlp_forward: y must be [M, K] = [100, 136], got [100, 200]");
  args.saved.gate_up = layer.h;
  EXPECT_EQ(message(),
            "gated_mlp_forward: saved.gate_up must be [M, 2F] = [100, 400], got [100, 200]");
  args.saved.h_t = args.saved.x_t;
  EXPECT_EQ(message(), "gated_mlp_forward: saved.h_t must be [F, M] = [200, 100], got [136, 100]");
  args.saved.w_down_t.block = kBlock1x128;
  EXPECT_EQ(message(), "gated_mlp_forward: saved.w_down_t must have 128x128 blocks, got 1x128");
  args.y = layer.x;
  EXPECT_EQ(message(), "gated_mlp_forward: output y overlaps x: their memory must be apart");
  EXPECT_TRUE(std::isnan(load_f32(layer.y.data(), 0, Dtype::bf16))) << "nothing was written";
}

TEST(GatedMlpRefusals, NameTheArgumentOfBackward) {
  GatedMlpProblem problem = small_problem();
  Layer layer(problem);
  layer.run_forward();
  const GatedMlpBackwardArgs right = layer.backward_args;
  GatedMlpBackwardArgs& args = layer.backward_args;
  const auto message = [&] {
    std::string result = refusal([&] { layer.run_backward(); });
    args = right;
    return result;
  };
  args.dy = layer.h;
  EXPECT_EQ(message(), "gated_mlp_backward: dy must be [M, K] = [100, 136], got [100, 200]");
  args.saved.x_t.values.data = nullptr;
  EXPECT_EQ(message(), "gated_mlp_backward: saved.x_t has a null pointer");
  args.dw_down = layer.dw_gate_up;
  EXPECT_EQ(message(), "gated_mlp_backward: dw_down must be [K, F] = [136, 200], got [400, 136]");
  args.dx = layer.dout;
  EXPECT_EQ(message(), "gated_mlp_backward: output dx overlaps dy: their memory must be apart");
  args.dx.data = layer.dw_gate_up.data();
  EXPECT_EQ(message(),
            "gated_mlp_backward: output dw_gate_up overlaps dx: their memory must be apart");
  EXPECT_TRUE(std::isnan(load_f32(layer.dx.data(), 0, Dtype::bf16))) << "nothing was written";
}

TEST(GatedMlpRefusals, PlainBackwardNeedsItsInputsAgain) {
  GatedMlpProblem problem = small_problem();
  problem.fp8 = false;
  Layer layer(problem);
  layer.run_forward();
  layer.backward_args.saved.x = {};
  EXPECT_EQ(refusal([&] { layer.run_backward(); }),
            "gated_mlp_backward: saved.x must have rank 2, [M, K], got rank 0");
}

TEST(GatedMlpRefusals, NameTheWorkspace) {
  const Layer layer(small_problem());
  const GatedMlpForwardPlan plan = plan_gated_mlp_forward(layer.problem);
  const Buffer workspace(plan.workspace_bytes);
  const std::string wanted = std::to_string(plan.workspace_bytes);
  EXPECT_EQ(refusal([&] { run(plan, layer.forward_args); }),
            "gated_mlp_forward: workspace must have " + wanted + " bytes, got 0");
  EXPECT_EQ(refusal([&] {
              run(plan, layer.forward_args, {workspace.data(), plan.workspace_bytes - 1});
            }),
            "gated_mlp_forward: workspace must have " + wanted + " bytes, got " +
                std::to_string(plan.workspace_bytes - 1));
  GatedMlpForwardArgs args = layer.forward_args;
  args.y.data = workspace.data();
  EXPECT_EQ(refusal([&] {
              run(plan, args, {workspace.data(), workspace.bytes()});
            }),
            "gated_mlp_forward: workspace overlaps y: their memory must be apart");
  EXPECT_EQ(refusal([&] { run(GatedMlpForwardPlan{}, layer.forward_args); }),
            "gated_mlp_forward: the plan is empty: plan_gated_mlp_forward() makes one from a "
            "problem");
  EXPECT_EQ(refusal([&] { run(GatedMlpBackwardPlan{}, layer.backward_args); }),
            "gated_mlp_backward: the plan is empty: plan_gated_mlp_backward() makes one from a "
            "problem");
}

TEST(GatedMlpRefusals, TheConvenienceLayerTrainsAndWantsAForwardFirst) {
  GatedMlpProblem problem = small_problem();
  const Layer buffers(problem);
  Fp8Mlp layer(problem);
  EXPECT_EQ(refusal([&] {
              layer.backward(buffers.dout, buffers.dx, buffers.dw_gate_up, buffers.dw_down);
            }),
            "gated_mlp_backward: no forward of this layer has run before it");
  problem.training = false;
  EXPECT_EQ(refusal([&] { Fp8Mlp other(problem); }),
            "gated_mlp: Fp8Mlp needs training = true and weights_quantized = false, got false and "
            "false; plan_gated_mlp_forward() takes the others");
}

}  // namespace
}  // namespace octet::testing
