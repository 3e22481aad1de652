// moe_mlp is its experts' dense layers on their own rows, added up per token, in every bit.
#include "device/cuda_runtime.hpp"
#include "ops/moe_mlp/layer.hpp"
#include "ops/moe_mlp/parts.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

MoeMlpProblem small_problem() {
  MoeMlpProblem problem;
  problem.tokens = 150;
  problem.f = 96;
  problem.k = 136;
  problem.experts = 6;
  problem.top_k = 3;
  return problem;
}

MoeMlpProblem given_problem() {
  MoeMlpProblem problem = small_problem();
  problem.routing.reset();
  return problem;
}

void expect_equal(const TensorView& given, const TensorView& wanted, const std::string& what) {
  EXPECT_EQ(bytes_of(given), bytes_of(wanted)) << what;
}

void expect_dense(const MoeMlpProblem& problem, const MoeTensors& tensors,
                  const DenseExperts& wanted) {
  expect_equal(tensors.y, wanted.y, "y");
  expect_equal(tensors.dx, wanted.dx, "dx");
  for (std::int64_t g = 0; g < MoeTensors::here(problem); ++g) {
    const auto i = static_cast<std::size_t>(g);
    expect_equal(matrix_of(tensors.dw_gate_up.view(), g), wanted.dw_gate_up[i], "dw_gate_up");
    expect_equal(matrix_of(tensors.dw_down.view(), g), wanted.dw_down[i], "dw_down");
  }
}

// Experts and weights are given.
void expect_given(const MoeMlpProblem& problem, const std::function<void(std::int32_t*)>& change) {
  SCOPED_TRACE(describe(problem));
  const MoeTensors tensors(problem), old(problem);
  change(MoeTensors::slot(tensors.indices));
  tensors.run_both(problem);
  const DenseExperts wanted(problem, tensors, tensors.indices, tensors.weights, old);
  expect_dense(problem, tensors, wanted);
  expect_equal(tensors.dweights, wanted.dweights, "dweights");
}

TEST(MoeMlp, IsTheDenseLayersOfItsExperts) {
  const auto as_drawn = [](std::int32_t*) {};
  expect_given(given_problem(), as_drawn);
  MoeMlpProblem other = given_problem();
  other.dtype = other.dw_dtype = Dtype::f32;
  other.accumulate_dw = true;
  other.wgrad_blocks = WgradBlocks::square;
  other.grad_format = Dtype::e5m2;
  other.activation = GateActivation::gelu_tanh;
  expect_given(other, as_drawn);
  other = given_problem();
  other.dtype = Dtype::f16;
  other.f = 128;
  other.k = 256;
  other.pow2_scales = true;
  other.amax_floor = 0.5f;
  expect_given(other, as_drawn);
}

TEST(MoeMlp, TakesAnyShareOfTheExperts) {
  expect_given(given_problem(), [](std::int32_t* slot) {
    for (int i = 0; i < 450; ++i) slot[i] = 4;  // all to one expert, the others are empty
  });
  expect_given(given_problem(), [](std::int32_t* slot) {
    for (int i = 0; i < 450; ++i) slot[i] = i % 7 == 0 ? -1 : slot[i];
  });
  expect_given(given_problem(), [](std::int32_t* slot) { std::fill(slot, slot + 450, -1); });
  MoeMlpProblem rank = given_problem();
  rank.first_expert = 2;
  rank.local_experts = 3;
  expect_given(rank, [](std::int32_t*) {});
  MoeMlpProblem capped = given_problem();
  capped.capacity = 20;
  expect_given(capped, [](std::int32_t*) {});
}

TEST(MoeMlp, RoutesAsMoeRouteDoes) {
  for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
    MoeMlpProblem problem = small_problem();
    problem.routing->score = score;
    problem.routing->bias = score == RouteScore::sigmoid;
    problem.routing->scale = 2.5f;
    const MoeTensors tensors(problem), old(problem);
    const Buffer memory = tensors.run_both(problem);
    const MoeMlpSaved saved = moe_mlp_saved_layout(problem).view(memory.data());

    MoeRouteProblem route{problem.tokens, problem.experts, problem.top_k, Dtype::f32, score};
    route.bias = problem.routing->bias;
    route.scale = 2.5f;
    const Tensor indices(Dtype::i32, {problem.tokens, problem.top_k});
    const Tensor weights(Dtype::f32, {problem.tokens, problem.top_k});
    const Tensor scores(Dtype::f32, {problem.tokens, problem.experts});
    const Tensor dlogits(Dtype::f32, {problem.tokens, problem.experts});
    run(plan_moe_route_forward(route), {tensors.logits, tensors.bias, indices, weights, scores});
    const DenseExperts wanted(problem, tensors, indices, weights, old);
    run(plan_moe_route_backward(route), {scores, indices, wanted.dweights, {}, dlogits});
    expect_dense(problem, tensors, wanted);
    expect_equal(saved.indices, indices, "indices");
    expect_equal(saved.scores, scores, "scores");
    expect_equal(tensors.dlogits, dlogits, "dlogits");
    EXPECT_NO_THROW(check_moe_maps(saved.status));
    std::int64_t rows = 0;
    for (int g = 0; g < 6; ++g) rows += static_cast<const std::int32_t*>(saved.sizes.data)[g];
    EXPECT_EQ(rows, problem.tokens * problem.top_k);
  }
}

TEST(MoeMlp, ThreadsNeverChangeABit) {
  const MoeMlpProblem problem = small_problem();
  const MoeTensors wanted(problem);
  wanted.run_both(problem, {.threads = 1});
  for (const int threads : {2, 5}) {
    const MoeTensors given(problem);
    given.run_both(problem, {.threads = threads});
    expect_equal(given.y, wanted.y, "y");
    expect_equal(given.dx, wanted.dx, "dx");
    expect_equal(given.dlogits, wanted.dlogits, "dlogits");
    expect_equal(given.dw_gate_up, wanted.dw_gate_up, "dw_gate_up");
    expect_equal(given.dw_down, wanted.dw_down, "dw_down");
  }
}

TEST(MoeMlp, InferenceHasTheBitsOfTraining) {
  MoeMlpProblem problem = small_problem();
  const MoeTensors training(problem);
  training.run_both(problem);
  problem.training = false;
  const MoeTensors inference(problem);
  const auto plan = plan_moe_mlp_forward(problem);
  const Buffer workspace(plan.workspace_bytes);
  std::memset(workspace.data(), 0xFF, workspace.bytes());
  run(plan, inference.forward_args(), {workspace.data(), workspace.bytes()});
  expect_equal(inference.y, training.y, "y");
}

TEST(MoeMlp, TakesWeightsQuantisedAheadOfTime) {
  MoeMlpProblem problem = small_problem();
  const MoeTensors wanted(problem);
  wanted.run_both(problem);
  const auto cast = [&](const Tensor& w, std::int64_t rows, std::int64_t cols) {
    std::pair<QuantizedTensor, QuantizedTensor> copies(
        QuantizedTensor(QuantizedBatchLayout(6, rows, cols, Dtype::e4m3, kBlock128x128)),
        QuantizedTensor(QuantizedBatchLayout(6, cols, rows, Dtype::e4m3, kBlock128x128)));
    QuantizeProblem quantize{.rows = rows, .cols = cols, .block = kBlock128x128};
    quantize.transposed_block = kBlock128x128;
    quantize.batch = 6;
    run(plan_quantize(quantize), {w, copies.first, copies.second});
    return copies;
  };
  const MoeTensors given(problem);
  const auto gate_up = cast(given.w_gate_up, 2 * problem.f, problem.k);
  const auto down = cast(given.w_down, problem.k, problem.f);
  problem.weights_quantized = true;
  const MoeMlpSavedLayout layout = moe_mlp_saved_layout(problem);
  EXPECT_LT(layout.bytes, moe_mlp_saved_layout(small_problem()).bytes);
  const Buffer memory(layout.bytes);
  MoeMlpSaved saved = layout.view(memory.data());
  MoeMlpForwardArgs forward = given.forward_args(saved);
  forward.w_gate_up = forward.w_down = {};
  forward.experts.gate_up.w = gate_up.first;
  forward.experts.down.w = down.first;
  saved.w_gate_up_t = gate_up.second;
  saved.w_down_t = down.second;
  const auto forward_plan = plan_moe_mlp_forward(problem);
  const auto backward_plan = plan_moe_mlp_backward(problem);
  const Buffer workspace(std::max(forward_plan.workspace_bytes, backward_plan.workspace_bytes));
  run(forward_plan, forward, {workspace.data(), workspace.bytes()});
  run(backward_plan, given.backward_args(saved), {workspace.data(), workspace.bytes()});
  expect_equal(given.y, wanted.y, "y");
  expect_equal(given.dx, wanted.dx, "dx");
  expect_equal(given.dlogits, wanted.dlogits, "dlogits");
  expect_equal(given.dw_gate_up, wanted.dw_gate_up, "dw_gate_up");
  expect_equal(given.dw_down, wanted.dw_down, "dw_down");
}

TEST(MoeMlp, WritesOnlyTheGradientsThatAreAskedFor) {
  for (const bool dx : {false, true}) {
    MoeMlpProblem problem = small_problem();
    const MoeTensors wanted(problem), old(problem), given(problem);
    wanted.run_both(problem);
    problem.need_dx = dx;
    problem.need_dw = !dx;
    given.run_both(problem);
    expect_equal(given.y, wanted.y, "y");
    expect_equal(given.dlogits, wanted.dlogits, "dlogits");
    expect_equal(given.dx, dx ? wanted.dx : old.dx, "dx");
    expect_equal(given.dw_down, dx ? old.dw_down : wanted.dw_down, "dw_down");
    expect_equal(given.dw_gate_up, dx ? old.dw_gate_up : wanted.dw_gate_up, "dw_gate_up");
  }
}

TEST(MoeMlp, TheClassHasTheBitsOfThePlans) {
  const MoeMlpProblem problem = small_problem();
  const MoeTensors wanted(problem), given(problem);
  wanted.run_both(problem);
  MoeMlp layer(problem);
  EXPECT_EQ(refusal(
                [&] {
                  layer.backward(given.dy, given.dx, given.dlogits, given.dw_gate_up,
                                 given.dw_down);
                },
                ErrorCode::invalid_argument),
            "moe_mlp_backward: no forward of this layer has run before it");
  for (int step = 0; step < 2; ++step) {
    layer.forward(given.x, given.logits, {}, given.w_gate_up, given.w_down, given.y);
    layer.backward(given.dy, given.dx, given.dlogits, given.dw_gate_up, given.dw_down);
    expect_equal(given.y, wanted.y, "y");
    expect_equal(given.dx, wanted.dx, "dx");
    expect_equal(given.dlogits, wanted.dlogits, "dlogits");
    expect_equal(given.dw_gate_up, wanted.dw_gate_up, "dw_gate_up");
  }
}

TEST(MoeMlp, EveryProductLeavesMultiprocessorsFree) {
  const cuda::Pretend h200(cuda::kH200);
  MoeMlpProblem problem = small_problem();
  problem.max_multiprocessors = 100;
  problem.device = {DeviceType::cuda, 0};
  const MoeMlpForwardPlan forward = plan_moe_mlp_forward(problem);
  const MoeMlpBackwardPlan backward = plan_moe_mlp_backward(problem);
  const auto& forward_state = *static_cast<const MoeMlpForwardState*>(forward.state.get());
  const auto& backward_state = *static_cast<const MoeMlpBackwardState*>(backward.state.get());
  for (const GroupedGemmPlan* product :
       {&forward_state.gate_up, &forward_state.down, &backward_state.dh, &*backward_state.dw_down,
        &*backward_state.dx, &*backward_state.dw_gate_up}) {
    EXPECT_EQ(product->problem.max_multiprocessors, 100) << describe(product->problem);
  }
}

TEST(MoeMlp, DescribesTheProblem) {
  EXPECT_EQ(describe(small_problem()),
            "moe-mlp --shape 150x96x136 --experts 6 --top-k 3 --dtype fp8 --activation silu "
            "--wgrad-blocks 1d --device cpu");
  MoeMlpProblem other = given_problem();
  other.first_expert = 2;
  other.local_experts = 2;
  other.rows = 500;
  other.capacity = 40;
  other.dw_dtype = Dtype::f32;
  other.accumulate_dw = true;
  EXPECT_EQ(
      describe(other),
      "moe-mlp --shape 150x96x136 --experts 6 --top-k 3 --dtype fp8 --given-experts "
      "--first-expert 2 "
      "--local-experts 2 --rows 500 --capacity 40 --activation silu --wgrad-blocks 1d --dw f32 "
      "--accumulate-dw --device cpu");
}

}  // namespace
}  // namespace octet
