// The C API gives the bits of the C++ API, for gated_mlp, plain and in FP8, with and without
// operands quantised by the caller.
#include "c_api/same_bits.hpp"

namespace octet {
namespace {

constexpr std::int64_t kM = 20, kF = 70, kK = 130;

GatedMlpProblem mlp_problem(bool fp8, bool down) {
  GatedMlpProblem problem{.m = kM, .f = kF, .k = kK};
  problem.dtype = problem.dw_dtype = Dtype::f32;
  problem.activation = GateActivation::gelu_tanh;
  problem.fp8 = fp8;
  problem.down = down;
  problem.grad_format = Dtype::e5m2;
  problem.wgrad_blocks = WgradBlocks::square;
  return problem;
}

TensorView random_matrix(Arena& arena, std::int64_t rows, std::int64_t cols, int seed) {
  return filled(arena.matrix(Dtype::f32, rows, cols), seed);
}

QuantizedView taken(Arena& arena, const QuantizedLayout& layout) {
  return layout.bytes == 0 ? QuantizedView() : layout.view(arena.take(layout.bytes));
}

GatedMlpSaved saved_views(Arena& arena, const GatedMlpProblem& problem) {
  const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
  GatedMlpSaved saved;
  if (layout.gate_up_bytes != 0) saved.gate_up = arena.matrix(problem.dtype, kM, 2 * kF);
  if (layout.h_bytes != 0) saved.h = arena.matrix(problem.dtype, kM, kF);
  saved.x_t = taken(arena, layout.x_t);
  saved.w_gate_up_t = taken(arena, layout.w_gate_up_t);
  saved.h_t = taken(arena, layout.h_t);
  saved.w_down_t = taken(arena, layout.w_down_t);
  return saved;
}

GatedMlpForwardArgs forward_args(Arena& arena, const GatedMlpProblem& problem) {
  GatedMlpForwardArgs args;
  args.x = random_matrix(arena, kM, kK, 1);
  args.w_gate_up = random_matrix(arena, 2 * kF, kK, 2);
  if (problem.down) {
    args.w_down = random_matrix(arena, kK, kF, 3);
    args.y = arena.matrix(Dtype::f32, kM, kK);
  } else if (problem.fp8) {
    args.h_fp8.out = arena.quantized(kM, kF, problem.format, kBlock1x128);
    args.h_fp8.transposed = arena.quantized(kF, kM, problem.format, kBlock128x128);
  } else {
    args.h = arena.matrix(Dtype::f32, kM, kF);
  }
  args.saved = saved_views(arena, problem);
  return args;
}

GatedMlpBackwardArgs backward_args(Arena& arena, const GatedMlpProblem& problem,
                                   const GatedMlpForwardArgs& forward) {
  GatedMlpBackwardArgs args;
  (problem.down ? args.dy : args.dh) = random_matrix(arena, kM, problem.down ? kK : kF, 4);
  args.saved = forward.saved;
  if (!problem.fp8) {
    args.saved.x = forward.x;
    args.w_gate_up = forward.w_gate_up;
    args.w_down = forward.w_down;
  }
  args.dx = arena.matrix(Dtype::f32, kM, kK);
  args.dw_gate_up = arena.matrix(Dtype::f32, 2 * kF, kK);
  if (problem.down) args.dw_down = arena.matrix(Dtype::f32, kK, kF);
  return args;
}

TEST(CApiGatedMlp, ForwardAndBackwardHaveTheSameBits) {
  for (const bool fp8 : {false, true}) {
    for (const bool down : {false, true}) {
      SCOPED_TRACE(testing::Message() << "fp8 " << fp8 << ", down " << down);
      const GatedMlpProblem problem = mlp_problem(fp8, down);
      expect_same_bits(GatedMlpForward{problem},
                       [&](Arena& arena) { return forward_args(arena, problem); });
      expect_same_bits(GatedMlpBackward{problem}, [&](Arena& arena) {
        const GatedMlpForwardArgs forward = forward_args(arena, problem);
        run_cpp(GatedMlpForward{problem}, forward);
        return backward_args(arena, problem, forward);
      });
    }
  }
}

Fp8LinearWeights quantized_ahead(Arena& arena, const TensorView& w) {
  QuantizeProblem cast{.rows = w.rows(), .cols = w.cols(), .input_dtype = Dtype::f32};
  cast.block = cast.transposed_block = kBlock128x128;
  const Fp8LinearWeights weights{arena.quantized(cast.rows, cast.cols, Dtype::e4m3, kBlock128x128),
                                 arena.quantized(cast.cols, cast.rows, Dtype::e4m3, kBlock128x128)};
  run_cpp(cast, QuantizeArgs{w, weights.w, weights.w_t});
  return weights;
}

TEST(CApiGatedMlp, ForwardTakesWeightsQuantisedAheadOfTime) {
  GatedMlpProblem problem = mlp_problem(true, true);
  problem.weights_quantized = true;
  problem.training = false;
  expect_same_bits(GatedMlpForward{problem}, [&](Arena& arena) {
    GatedMlpForwardArgs args = forward_args(arena, problem);
    args.weights.gate_up = quantized_ahead(arena, args.w_gate_up);
    args.weights.down = quantized_ahead(arena, args.w_down);
    args.w_gate_up = args.w_down = {};
    return args;
  });
}

TEST(CApiGatedMlp, LayoutsAndCostsAreThoseOfCpp) {
  const GatedMlpProblem problem = mlp_problem(true, true);
  const octet_gated_mlp_problem c = bad_input::to_c(problem);
  const GatedMlpSavedLayout cpp = gated_mlp_saved_layout(problem);
  octet_gated_mlp_saved_layout layout;
  ASSERT_EQ(octet_make_gated_mlp_saved_layout(&c, &layout), OCTET_OK) << octet_last_error();
  EXPECT_EQ(layout.gate_up_bytes, cpp.gate_up_bytes);
  EXPECT_EQ(layout.h_bytes, cpp.h_bytes);
  EXPECT_EQ(layout.x_t.bytes, cpp.x_t.bytes);
  EXPECT_EQ(layout.w_gate_up_t.bytes, cpp.w_gate_up_t.bytes);
  EXPECT_EQ(layout.h_t.bytes, cpp.h_t.bytes);
  EXPECT_EQ(layout.w_down_t.bytes, cpp.w_down_t.bytes);

  const GatedMlpCost wanted[2] = {cost(plan_gated_mlp_forward(problem)),
                                  cost(plan_gated_mlp_backward(problem))};
  const auto planners = {octet_make_gated_mlp_forward_plan, octet_make_gated_mlp_backward_plan};
  const GatedMlpCost* cost = wanted;
  for (const auto plan_it : planners) {
    octet_plan* made = nullptr;
    ASSERT_EQ(plan_it(&c, nullptr, &made), OCTET_OK) << octet_last_error();
    const bad_input::PlanOwner plan(made, octet_destroy_plan);
    std::int64_t launches = 0;
    std::int64_t bytes = 0;
    ASSERT_EQ(octet_gated_mlp_cost(made, &launches, &bytes), OCTET_OK) << octet_last_error();
    EXPECT_EQ(launches, cost->launches);
    EXPECT_EQ(bytes, cost->bytes);
    ++cost;
  }
}

}  // namespace
}  // namespace octet
