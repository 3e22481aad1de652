// The C API gives the bits of the C++ API, for the glue of a mixture of experts.
#include "c_api/same_bits.hpp"

#include <cstring>
#include <span>

namespace octet {
namespace {

// Four tokens with two choices of three experts; one choice is not here.
constexpr std::int32_t kIndices[8] = {2, 0, 1, 2, 0, -1, 1, 0};
constexpr std::int32_t kRowOf[8] = {5, 0, 3, 6, 1, -1, 4, 2};
constexpr std::int32_t kSource[9] = {1, 4, 7, 2, 6, 0, 3, -1, -1};

TensorView integers(Arena& arena, std::initializer_list<std::int64_t> shape,
                    std::span<const std::int32_t> values) {
  TensorView view = arena.tensor(Dtype::i32, shape);
  std::memcpy(view.data, values.data(), values.size_bytes());
  return view;
}

TEST(CApiMoe, RoutesHaveTheSameBits) {
  for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
    const MoeRouteProblem problem{.tokens = 4,
                                  .experts = 12,
                                  .top_k = 3,
                                  .score = score,
                                  .bias = true,
                                  .expert_groups = 4,
                                  .top_groups = 2,
                                  .group_score = ExpertGroupScore::best,
                                  .normalize = score == RouteScore::softmax,
                                  .scale = 2.5f};
    expect_same_bits(MoeRouteForward{problem}, [&](Arena& arena) {
      MoeRouteForwardArgs args;
      args.logits = filled(arena.matrix(problem.dtype, 4, 12), 1);
      args.bias = filled(arena.tensor(Dtype::f32, {12}), 2);
      args.indices = arena.matrix(Dtype::i32, 4, 3);
      args.weights = arena.matrix(Dtype::f32, 4, 3);
      args.scores = arena.matrix(Dtype::f32, 4, 12);
      return args;
    });
    expect_same_bits(MoeRouteBackward{problem}, [&](Arena& arena) {
      MoeRouteBackwardArgs args;
      args.scores = filled(arena.matrix(Dtype::f32, 4, 12), 1);
      args.indices = integers(arena, {4, 3}, std::span(kIndices));
      args.dweights = filled(arena.matrix(Dtype::f32, 4, 3), 3);
      args.dscores = filled(arena.matrix(Dtype::f32, 4, 12), 4);
      args.dlogits = arena.matrix(problem.dtype, 4, 12);
      return args;
    });
  }
}

TEST(CApiMoe, MapsHaveTheSameBits) {
  MoeMapsProblem problem{.tokens = 4, .top_k = 2, .experts = 5, .first_expert = 1, .groups = 2};
  problem.rows = 9;
  problem.capacity = 2;
  expect_same_bits(problem, [&](Arena& arena) {
    MoeMapsArgs args;
    args.indices = integers(arena, {4, 2}, std::span(kIndices));
    args.row_of = arena.matrix(Dtype::i32, 4, 2);
    args.source = arena.tensor(Dtype::i32, {9});
    args.sizes = arena.tensor(Dtype::i32, {2});
    args.table = arena.tensor(Dtype::i32, {group_table_words(2, 9)});
    args.status = arena.tensor(Dtype::i32, {kMoeMapsStatusWords});
    return args;
  });
}

TEST(CApiMoe, PermutesHaveTheSameBits) {
  for (const bool weights : {false, true}) {
    const MoePermuteProblem problem{4, 2, 9, 33, Dtype::f16, weights, GroupTail::untouched};
    expect_same_bits(MoePermuteForward{problem}, [&](Arena& arena) {
      MoePermuteForwardArgs args;
      args.x = filled(arena.matrix(Dtype::f16, 4, 33), 1);
      args.weights = filled(arena.matrix(Dtype::f32, 4, 2), 2);
      args.row_of = integers(arena, {4, 2}, std::span(kRowOf));
      args.source = integers(arena, {9}, std::span(kSource));
      args.grouped = arena.matrix(Dtype::f16, 9, 33);
      args.row_weight = arena.tensor(Dtype::f32, {9});
      return args;
    });
    expect_same_bits(MoePermuteBackward{problem}, [&](Arena& arena) {
      MoePermuteBackwardArgs args;
      args.dgrouped = filled(arena.matrix(Dtype::f16, 9, 33), 1);
      args.d_row_weight = filled(arena.tensor(Dtype::f32, {9}), 2);
      args.row_of = integers(arena, {4, 2}, std::span(kRowOf));
      args.dx = arena.matrix(Dtype::f16, 4, 33);
      args.dweights = arena.matrix(Dtype::f32, 4, 2);
      return args;
    });
  }
}

TEST(CApiMoe, UnpermutesHaveTheSameBits) {
  for (const bool weights : {false, true}) {
    const MoeUnpermuteProblem problem{4, 2, 9, 33, Dtype::bf16, weights};
    expect_same_bits(MoeUnpermuteForward{problem}, [&](Arena& arena) {
      MoeUnpermuteForwardArgs args;
      args.grouped = filled(arena.matrix(Dtype::bf16, 9, 33), 1);
      args.weights = filled(arena.matrix(Dtype::f32, 4, 2), 2);
      args.row_of = integers(arena, {4, 2}, std::span(kRowOf));
      args.out = arena.matrix(Dtype::bf16, 4, 33);
      return args;
    });
    expect_same_bits(MoeUnpermuteBackward{problem}, [&](Arena& arena) {
      MoeUnpermuteBackwardArgs args;
      args.dout = filled(arena.matrix(Dtype::bf16, 4, 33), 1);
      args.grouped = filled(arena.matrix(Dtype::bf16, 9, 33), 2);
      args.weights = filled(arena.matrix(Dtype::f32, 4, 2), 3);
      args.row_of = integers(arena, {4, 2}, std::span(kRowOf));
      args.source = integers(arena, {9}, std::span(kSource));
      args.dgrouped = arena.matrix(Dtype::bf16, 9, 33);
      args.dweights = arena.matrix(Dtype::f32, 4, 2);
      return args;
    });
  }
}

MoeMlpForwardArgs experts_forward(Arena& arena, const MoeMlpProblem& p) {
  MoeMlpForwardArgs args;
  args.x = filled(arena.matrix(Dtype::bf16, p.tokens, p.k), 1);
  args.logits = filled(arena.matrix(Dtype::f32, p.tokens, p.experts), 2);
  args.bias = filled(arena.tensor(Dtype::f32, {p.experts}), 3);
  args.indices = arena.tensor(Dtype::i32, {p.tokens, p.top_k});
  for (std::int64_t i = 0; i < p.tokens * p.top_k; ++i) {
    static_cast<std::int32_t*>(args.indices.data)[i] = static_cast<std::int32_t>(i * 7 % p.experts);
  }
  args.weights = filled(arena.tensor(Dtype::f32, {p.tokens, p.top_k}), 4);
  args.w_gate_up = filled(arena.tensor(Dtype::bf16, {p.experts, 2 * p.f, p.k}), 5);
  args.w_down = filled(arena.tensor(Dtype::bf16, {p.experts, p.k, p.f}), 6);
  args.y = arena.matrix(Dtype::bf16, p.tokens, p.k);
  if (p.training) {
    const MoeMlpSavedLayout layout = moe_mlp_saved_layout(p);
    args.saved = layout.view(arena.take(layout.bytes));
  }
  return args;
}

TEST(CApiMoe, LayersOfExpertsHaveTheSameBits) {
  for (const bool routes : {true, false}) {
    MoeMlpProblem problem{.tokens = 40, .f = 70, .k = 130, .experts = 5, .top_k = 2};
    problem.routing->score = RouteScore::sigmoid;
    problem.routing->bias = true;
    problem.routing->scale = 2;
    if (!routes) problem.routing.reset();
    problem.wgrad_blocks = WgradBlocks::square;
    problem.grad_format = Dtype::e5m2;
    problem.activation = GateActivation::gelu_tanh;
    expect_same_bits(MoeMlpForward{problem},
                     [&](Arena& arena) { return experts_forward(arena, problem); });
    expect_same_bits(MoeMlpBackward{problem}, [&](Arena& arena) {
      const MoeMlpForwardArgs forward = experts_forward(arena, problem);
      run_cpp(MoeMlpForward{problem}, forward);
      MoeMlpBackwardArgs args;
      args.dy = filled(arena.matrix(Dtype::bf16, 40, 130), 7);
      args.dscores = routes ? filled(arena.matrix(Dtype::f32, 40, 5), 8) : TensorView();
      args.saved = forward.saved;
      args.dx = arena.matrix(Dtype::bf16, 40, 130);
      args.dlogits = arena.matrix(Dtype::f32, 40, 5);
      args.dweights = arena.tensor(Dtype::f32, {40, 2});
      args.dw_gate_up = arena.tensor(Dtype::bf16, {5, 140, 130});
      args.dw_down = arena.tensor(Dtype::bf16, {5, 130, 70});
      return args;
    });
    problem.training = false;
    expect_same_bits(MoeMlpForward{problem},
                     [&](Arena& arena) { return experts_forward(arena, problem); });
  }
}

TEST(CApiMoe, WhatALayerOfExpertsSavesHasTheLayoutOfCpp) {
  const MoeMlpProblem problem{.tokens = 40, .f = 70, .k = 130, .experts = 5, .top_k = 2};
  const octet_moe_mlp_problem c = bad_input::to_c(problem);
  const MoeMlpSavedLayout layout = moe_mlp_saved_layout(problem);
  std::uint64_t bytes = 0;
  ASSERT_EQ(octet_moe_mlp_saved_bytes(&c, &bytes), OCTET_OK) << octet_last_error();
  EXPECT_EQ(bytes, layout.bytes);
  const Buffer memory(layout.bytes);
  octet_moe_mlp_saved views{};
  ASSERT_EQ(octet_view_moe_mlp_saved(&c, memory.data(), &views), OCTET_OK) << octet_last_error();
  const octet_moe_mlp_saved wanted = bad_input::to_c(layout.view(memory.data()));
  EXPECT_EQ(std::memcmp(&views, &wanted, sizeof views), 0);
}

}  // namespace
}  // namespace octet
