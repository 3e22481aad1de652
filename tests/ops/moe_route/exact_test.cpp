// Routings small enough to be worked out by hand, in numbers that f32 has exactly.
#include "ops/moe_route/case.hpp"

namespace octet {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

TEST(MoeRoute, TiesGoToTheLowerExpert) {
  RouteCase one({.tokens = 1, .experts = 8, .top_k = 4, .dtype = Dtype::f32});
  one.logits.set_row(0, Floats(8, 3.0f));
  one.forward();
  EXPECT_EQ(one.indices.integers(0), Ints({0, 1, 2, 3}));
  EXPECT_EQ(one.weights.row(0), Floats(4, 0.25f));
  EXPECT_EQ(one.scores.row(0), Floats(8, 0.125f));
}

TEST(MoeRoute, TheOrderIsDescending) {
  RouteCase one({.tokens = 2, .experts = 5, .top_k = 3, .dtype = Dtype::bf16});
  one.logits.set_row(0, {1, 5, 3, 5, 2});
  one.logits.set_row(1, {-9, -8, -7, -6, -5});
  one.forward();
  EXPECT_EQ(one.indices.integers(0), Ints({1, 3, 2}));
  EXPECT_EQ(one.indices.integers(1), Ints({4, 3, 2}));
}

TEST(MoeRoute, ABiasChangesTheChoiceAndNoWeight) {
  RouteCase one({.tokens = 1,
                 .experts = 4,
                 .top_k = 2,
                 .dtype = Dtype::f32,
                 .score = RouteScore::sigmoid,
                 .bias = true,
                 .normalize = false,
                 .scale = 3});
  one.logits.set_row(0, {0, 0, 0, 0});
  one.bias.set_row(0, {-1, 0.25f, 0, 0.5f});
  one.forward();
  EXPECT_EQ(one.indices.integers(0), Ints({3, 1}));
  EXPECT_EQ(one.weights.row(0), Floats({1.5f, 1.5f}));
  EXPECT_EQ(one.scores.row(0), Floats(4, 0.5f));
}

// Scores are all 0.5, so the bias decides: group 0 has the best expert, group 2 the best two.
TEST(MoeRoute, OnlyExpertsOfTheBestGroupsAreChosen) {
  MoeRouteProblem problem{.tokens = 1,
                          .experts = 6,
                          .top_k = 2,
                          .dtype = Dtype::f32,
                          .score = RouteScore::sigmoid,
                          .bias = true,
                          .expert_groups = 3,
                          .top_groups = 1};
  const auto chosen = [&](ExpertGroupScore rule, std::int64_t top_groups) {
    problem.group_score = rule;
    problem.top_groups = top_groups;
    RouteCase one(problem);
    one.logits.set_row(0, Floats(6, 0));
    one.bias.set_row(0, {0.5f, -2, 0, 0.125f, 0.25f, 0.375f});
    one.forward();
    return one.indices.integers(0);
  };
  EXPECT_EQ(chosen(ExpertGroupScore::best, 1), Ints({0, 1}));
  EXPECT_EQ(chosen(ExpertGroupScore::best_two, 1), Ints({5, 4}));
  EXPECT_EQ(chosen(ExpertGroupScore::best, 2), Ints({0, 5}));
  EXPECT_EQ(chosen(ExpertGroupScore::best_two, 2), Ints({5, 4})) << "group 1, then expert 3";
  EXPECT_EQ(chosen(ExpertGroupScore::best_two, 3), Ints({0, 5}));
}

TEST(MoeRoute, EqualGroupsGoToTheLowerOne) {
  RouteCase one({.tokens = 1,
                 .experts = 8,
                 .top_k = 4,
                 .dtype = Dtype::f32,
                 .expert_groups = 4,
                 .top_groups = 2});
  one.logits.set_row(0, Floats(8, -1.0f));
  one.forward();
  EXPECT_EQ(one.indices.integers(0), Ints({0, 1, 2, 3}));
}

// sigmoid has slope 1/4 at 0; experts that are not chosen have the gradient of their score alone.
TEST(MoeRouteBackward, IsTheSlopeOfTheSigmoid) {
  RouteCase one({.tokens = 1,
                 .experts = 4,
                 .top_k = 2,
                 .dtype = Dtype::f32,
                 .score = RouteScore::sigmoid,
                 .normalize = false,
                 .scale = 2});
  one.logits.set_row(0, {0, 0, 0, 0});
  one.dweights.set_row(0, {1, -3});
  one.dscores.set_row(0, {0, 1, 8, 0});
  one.forward();
  one.backward();
  EXPECT_EQ(one.dlogits.row(0), Floats({0.5f, -1.25f, 2, 0}));
  one.backward(false);
  EXPECT_EQ(one.dlogits.row(0), Floats({0.5f, -1.5f, 0, 0}));
}

// With scores 1/4 each and two chosen: d = 1/2, ds = 2 (dweights - mean).
TEST(MoeRouteBackward, NormalisedWeightsHaveNoGradientAlongThemselves) {
  RouteCase one({.tokens = 1, .experts = 4, .top_k = 2, .dtype = Dtype::f32});
  one.logits.set_row(0, {1, 1, 1, 1});
  one.forward();
  one.dweights.set_row(0, {5, 5});
  one.backward(false);
  EXPECT_EQ(one.dlogits.row(0), Floats(4, 0));
  one.dweights.set_row(0, {1, -1});
  one.backward(false);
  EXPECT_EQ(one.dlogits.row(0), Floats({0.5f, -0.5f, 0, 0}));
}

TEST(MoeRouteBackward, AnIndexThatIsNoExpertHasNoGradient) {
  RouteCase one({.tokens = 1, .experts = 4, .top_k = 2, .dtype = Dtype::f32, .normalize = false});
  one.logits.set_row(0, {1, 1, 1, 1});
  one.forward();
  one.indices.integer(0, 0) = -1;
  one.indices.integer(0, 1) = 4;
  one.backward(false);
  EXPECT_EQ(one.dlogits.row(0), Floats(4, 0));
}

TEST(MoeRoute, ScoresMayBeAbsent) {
  const RouteCase with({.tokens = 9, .experts = 17, .top_k = 3});
  const RouteCase without(with.problem);
  with.forward();
  run(plan_moe_route_forward(without.problem),
      {without.logits.view(), {}, without.indices.view(), without.weights.view(), {}});
  EXPECT_EQ(without.indices.bytes(), with.indices.bytes());
  EXPECT_EQ(without.weights.bytes(), with.weights.bytes());
}

TEST(MoeRoute, NoTokensAreFine) {
  const RouteCase none({.tokens = 0, .experts = 4, .top_k = 2});
  none.forward();
  none.backward();
}

TEST(MoeRoute, SaysWhatItIs) {
  MoeRouteProblem problem{.tokens = 512, .experts = 64, .top_k = 6};
  EXPECT_EQ(describe(problem),
            "moe-route --shape 512x64 --top-k 6 --dtype bf16 --score softmax --device cpu");
  problem.score = RouteScore::sigmoid;
  problem.bias = true;
  problem.expert_groups = 8;
  problem.top_groups = 4;
  problem.normalize = false;
  problem.scale = 2.5f;
  EXPECT_EQ(describe(problem),
            "moe-route --shape 512x64 --top-k 6 --dtype bf16 --score sigmoid --bias "
            "--expert-groups 8 --top-groups 4 --group-score best_two --no-normalize --scale 2.5 "
            "--device cpu");
}

}  // namespace
}  // namespace octet
