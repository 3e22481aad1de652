// The layer equals the chain of its parts: fused or not, as a whole or in parts, the bits are the
// same.
#include <gtest/gtest.h>

#include "device/cuda_runtime.hpp"
#include "ops/gated_mlp/layer.hpp"
#include "ops/gated_mlp/state.hpp"

namespace octet::testing {
namespace {

void expect_equal_outputs(const Layer& one, const Layer& other) {
  expect_equal_results(one, other);
  EXPECT_TRUE(equal(one.h, other.h));
  EXPECT_TRUE(equal(one.h_fp8, other.h_fp8));
  EXPECT_TRUE(equal(one.h_fp8_t, other.h_fp8_t));
}

void expect_equal_saved(const Layer& one, const Layer& other) {
  EXPECT_TRUE(equal(one.gate_up, other.gate_up));
  EXPECT_TRUE(equal(one.saved_h, other.saved_h));
  EXPECT_TRUE(equal(one.x_t, other.x_t));
  EXPECT_TRUE(equal(one.w_gate_up_t, other.w_gate_up_t));
  EXPECT_TRUE(equal(one.h_t, other.h_t));
  EXPECT_TRUE(equal(one.w_down_t, other.w_down_t));
}

// With F = 33 and F = 200, blocks of 128 cross the border between gate and up.
TEST(GatedMlp, FusedAndUnfusedGiveTheSameBits) {
  for (const std::int64_t f : {33, 128, 200}) {
    for (const bool down : {false, true}) {
      for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
        GatedMlpProblem problem = small_problem();
        problem.f = f;
        problem.down = down;
        problem.wgrad_blocks = blocks;
        problem.grad_format = down ? Dtype::e5m2 : Dtype::e4m3;
        SCOPED_TRACE(describe(problem));
        const Layer fused(problem);
        problem.unfused = true;
        const Layer unfused(problem);
        fused.run();
        unfused.run();
        expect_equal_outputs(fused, unfused);
        expect_equal_saved(fused, unfused);
      }
    }
  }
}

// The chain: fp8_linear, gated_activation, fp8_linear, called one by one.
void expect_bits_of_chain(const GatedMlpProblem& problem) {
  SCOPED_TRACE(describe(problem));
  const Layer whole(problem);
  whole.run();

  Fp8LinearProblem gate_up_problem{.m = problem.m, .n = 2 * problem.f, .k = problem.k};
  gate_up_problem.granularity = problem.granularity;
  gate_up_problem.mx_scale = problem.mx_scale;
  Fp8LinearProblem down_problem = gate_up_problem;
  down_problem.n = problem.k;
  down_problem.k = problem.f;
  Fp8Linear gate_up_layer(gate_up_problem);
  Fp8Linear down_layer(down_problem);
  const GatedActivationProblem activation{.rows = problem.m, .cols = problem.f};
  const Layer parts(problem);
  const Tensor gate_up(Dtype::bf16, {problem.m, 2 * problem.f});
  const Tensor d_gate_up(Dtype::bf16, {problem.m, 2 * problem.f});
  const Tensor dh(Dtype::bf16, {problem.m, problem.f});
  const auto half = [&](const Tensor& both, std::int64_t first) {
    return make_matrix(static_cast<char*>(both.data()) + 2 * first, Dtype::bf16, problem.m,
                       problem.f, 2 * problem.f);
  };
  gate_up_layer.forward(parts.x, parts.w_gate_up, gate_up);
  run(plan_gated_activation_forward(activation),
      {half(gate_up, 0), half(gate_up, problem.f), {}, parts.h, {}});
  down_layer.forward(parts.h, parts.w_down, parts.y);
  down_layer.backward(parts.dout, dh, parts.dw_down);
  run(plan_gated_activation_backward(activation), {dh,
                                                   half(gate_up, 0),
                                                   half(gate_up, problem.f),
                                                   {},
                                                   half(d_gate_up, 0),
                                                   half(d_gate_up, problem.f),
                                                   {},
                                                   {}});
  gate_up_layer.backward(d_gate_up, parts.dx, parts.dw_gate_up);

  expect_equal_results(whole, parts);
}

TEST(GatedMlp, IsLinearActivationLinearInEveryBit) { expect_bits_of_chain(small_problem()); }

TEST(GatedMlp, IsThatChainInEveryGranularity) {
  GatedMlpProblem problem = small_problem();
  for (const Granularity granularity :
       {Granularity::tensorwise, Granularity::rowwise, Granularity::mxfp8}) {
    problem.granularity = granularity;
    expect_bits_of_chain(problem);
  }
  problem.mx_scale = MxScale::even;
  expect_bits_of_chain(problem);
}

// The activation writes no scales of columns: copies of h both ways come from a cast of their own.
TEST(GatedMlp, OtherGranularitiesCastApartFromTheActivation) {
  for (const Granularity granularity :
       {Granularity::tensorwise, Granularity::rowwise, Granularity::mxfp8}) {
    for (const bool down : {false, true}) {
      GatedMlpProblem problem = small_problem();
      problem.granularity = granularity;
      problem.down = down;
      SCOPED_TRACE(describe(problem));
      const Layer given(problem);
      const GatedMlpCost cost = octet::cost(plan_gated_mlp_forward(problem));
      problem.unfused = true;
      const Layer unfused(problem);
      EXPECT_EQ(cost.launches, octet::cost(plan_gated_mlp_forward(problem)).launches);
      given.run();
      unfused.run();
      expect_equal_outputs(given, unfused);
      expect_equal_saved(given, unfused);
    }
  }
}

// Without transposed copies a scale per row is written by the activation: by forward in inference, and
// by both passes of a layer whose weights are frozen.
TEST(GatedMlp, RowwiseLayersWithoutWeightGradientsCastInTheActivation) {
  if (!this_machine(kCpu, 1).avx2) GTEST_SKIP() << "this machine has no AVX2";
  for (const bool down : {false, true}) {
    for (const bool training : {false, true}) {
      GatedMlpProblem problem = small_problem();
      problem.granularity = Granularity::rowwise;
      problem.down = down;
      problem.training = training;
      problem.need_dw = false;
      SCOPED_TRACE(describe(problem));
      const auto launches = [&] {
        const std::int64_t forward = cost(plan_gated_mlp_forward(problem)).launches;
        return training ? forward + cost(plan_gated_mlp_backward(problem)).launches : forward;
      };
      const auto run = [](const Layer& layer) {
        return layer.problem.training ? layer.run() : layer.run_forward();
      };
      const std::int64_t fused = launches();
      const Layer given(problem);
      run(given);
      problem.unfused = true;
      EXPECT_EQ(launches() - fused, training ? 2 : 1);
      const Layer unfused(problem);
      run(unfused);
      expect_equal_outputs(given, unfused);
      expect_equal_saved(given, unfused);
    }
  }
}

TEST(GatedMlp, TheConvenienceLayerGivesTheSameBits) {
  const GatedMlpProblem problem = small_problem();
  const Layer whole(problem);
  whole.run();
  const Layer kept(problem);
  Fp8Mlp layer(problem);
  layer.forward(kept.x, kept.w_gate_up, kept.w_down, kept.y);
  layer.backward(kept.dout, kept.dx, kept.dw_gate_up, kept.dw_down);
  expect_equal_outputs(whole, kept);
  EXPECT_EQ(std::memcmp(layer.saved().gate_up.data, whole.gate_up.data(), whole.gate_up.bytes()),
            0);
}

TEST(GatedMlp, WeightsQuantizedAheadGiveTheSameBits) {
  const Layer on_the_fly(small_problem());
  on_the_fly.run();
  GatedMlpProblem problem = small_problem();
  problem.weights_quantized = true;
  const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
  EXPECT_EQ(layout.w_gate_up_t.bytes + layout.w_down_t.bytes, 0u);
  Layer ahead(problem);
  const BothWays gate_up(ahead.w_gate_up, problem.format);
  const BothWays down(ahead.w_down, problem.format);
  ahead.forward_args.w_gate_up = ahead.forward_args.w_down = {};
  ahead.forward_args.weights = {gate_up.view(), down.view()};
  ahead.backward_args.saved.w_gate_up_t = gate_up.w_t;
  ahead.backward_args.saved.w_down_t = down.w_t;
  ahead.run();
  expect_equal_outputs(on_the_fly, ahead);
}

TEST(GatedMlp, ComputesOnlyTheGradientsAskedFor) {
  for (const bool fp8 : {false, true}) {
    GatedMlpProblem problem = small_problem();
    problem.fp8 = fp8;
    const Layer both(problem);
    both.run();
    for (const bool need_dx : {false, true}) {
      problem.need_dx = need_dx;
      problem.need_dw = !need_dx;
      const Layer one(problem);
      one.run();
      EXPECT_TRUE(equal(one.y, both.y));
      EXPECT_EQ(equal(one.dx, both.dx), need_dx);
      EXPECT_EQ(equal(one.dw_gate_up, both.dw_gate_up), !need_dx);
      EXPECT_EQ(equal(one.dw_down, both.dw_down), !need_dx);
      const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
      EXPECT_NE(layout.gate_up_bytes, 0u);
      EXPECT_EQ(layout.h_bytes != 0, !fp8 && !need_dx);
      EXPECT_EQ(layout.x_t.bytes != 0, fp8 && !need_dx);
      EXPECT_EQ(layout.h_t.bytes != 0, fp8 && !need_dx);
      EXPECT_EQ(layout.w_gate_up_t.bytes != 0, fp8 && need_dx);
      EXPECT_EQ(layout.w_down_t.bytes != 0, fp8) << "dh is needed for either";
    }
  }
}

TEST(GatedMlp, EveryProductLeavesMultiprocessorsFree) {
  const cuda::Pretend h200(cuda::kH200);
  for (const bool fp8 : {false, true}) {
    GatedMlpProblem problem{.m = 256, .f = 256, .k = 256, .down = true, .fp8 = fp8};
    problem.max_multiprocessors = 100;
    problem.device = {DeviceType::cuda, 0};
    const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem);
    const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem);
    const auto& forward_state = *static_cast<const GatedMlpForwardState*>(forward.state.get());
    const auto& backward_state = *static_cast<const GatedMlpBackwardState*>(backward.state.get());
    for (const GemmPlan* product :
         {&forward_state.gate_up, &*forward_state.down, &*backward_state.dh,
          &*backward_state.dw_down, &*backward_state.dx, &*backward_state.dw_gate_up}) {
      EXPECT_EQ(product->problem.max_multiprocessors, 100) << describe(product->problem);
    }
  }
}

TEST(GatedMlp, InferenceSavesNothingAndGivesTheSameBits) {
  for (const bool fp8 : {false, true}) {
    for (const bool down : {false, true}) {
      GatedMlpProblem problem = small_problem();
      problem.fp8 = fp8;
      problem.down = down;
      const Layer training(problem);
      training.run();
      problem.training = false;
      const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
      EXPECT_EQ(layout.gate_up_bytes + layout.h_bytes + layout.x_t.bytes + layout.h_t.bytes +
                    layout.w_gate_up_t.bytes + layout.w_down_t.bytes,
                0u);
      const Layer inference(problem);
      inference.run_forward();
      EXPECT_TRUE(equal(training.y, inference.y));
      EXPECT_TRUE(equal(training.h, inference.h));
      EXPECT_TRUE(equal(training.h_fp8, inference.h_fp8));
      EXPECT_EQ(inference.h_fp8_t.bytes(), 0u);
    }
  }
}

// Row 17 of x affects its own row of y and dx, and all of the weight gradients.
TEST(GatedMlp, APoisonedTokenPoisonsOnlyItsOwnRows) {
  for (const bool fp8 : {false, true}) {
    GatedMlpProblem problem = small_problem();
    problem.fp8 = fp8;
    const Layer layer(problem);
    store_f32(layer.x.data(), 17 * problem.k + 5, problem.dtype, NAN);
    layer.run();
    for (std::int64_t m = 0; m < problem.m; ++m) {
      for (std::int64_t k = 0; k < problem.k; ++k) {
        const std::int64_t i = m * problem.k + k;
        EXPECT_EQ(std::isnan(load_f32(layer.y.data(), i, problem.dtype)), m == 17);
        EXPECT_EQ(std::isnan(load_f32(layer.dx.data(), i, problem.dtype)), m == 17);
      }
    }
    EXPECT_TRUE(std::isnan(load_f32(layer.dw_gate_up.data(), 0, problem.dw_dtype)));
    EXPECT_TRUE(std::isnan(load_f32(layer.dw_down.data(), 0, problem.dw_dtype)));
  }
}

}  // namespace
}  // namespace octet::testing
