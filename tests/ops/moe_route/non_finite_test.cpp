// NaN and infinities among logits and biases: the choice stays valid and the same, and NaN shows.
#include "ops/moe_route/case.hpp"

namespace octet {
namespace {

using Ints = std::vector<std::int32_t>;
constexpr float kInfinity = INFINITY;

RouteCase routed(MoeRouteProblem problem, const std::vector<float>& logits,
                 const std::vector<float>& bias = {}) {
  problem.tokens = 1;
  problem.experts = static_cast<std::int64_t>(logits.size());
  problem.dtype = Dtype::f32;
  problem.bias = !bias.empty();
  RouteCase one(problem);
  one.logits.set_row(0, logits);
  if (!bias.empty()) one.bias.set_row(0, bias);
  one.forward();
  return one;
}

bool all_nan(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

TEST(MoeRouteNonFinite, OneNanMakesEverySoftmaxScoreNan) {
  for (const float bad : {NAN, kInfinity}) {
    const RouteCase one = routed({.top_k = 2}, {1, 2, bad, 4});
    EXPECT_TRUE(all_nan(one.scores.row(0)));
    EXPECT_TRUE(all_nan(one.weights.row(0)));
    EXPECT_EQ(one.indices.integers(0), Ints({0, 1}));
  }
  EXPECT_TRUE(all_nan(routed({.top_k = 1}, {-kInfinity, -kInfinity}).scores.row(0)));
}

TEST(MoeRouteNonFinite, MinusInfinityIsAnExpertThatIsClosed) {
  const RouteCase one = routed({.top_k = 3}, {-kInfinity, 2, -kInfinity, 2});
  EXPECT_EQ(one.scores.row(0), std::vector<float>({0, 0.5f, 0, 0.5f}));
  EXPECT_EQ(one.indices.integers(0), Ints({1, 3, 0}));
  EXPECT_EQ(one.weights.row(0), std::vector<float>({0.5f, 0.5f, 0}));
}

TEST(MoeRouteNonFinite, ASigmoidKeepsNanToItsExpertAndChoosesIt) {
  const RouteCase one = routed({.top_k = 3, .score = RouteScore::sigmoid, .normalize = false},
                               {0, kInfinity, NAN, -kInfinity});
  EXPECT_EQ(one.scores.at(0, 0), 0.5f);
  EXPECT_EQ(one.scores.at(0, 1), 1);
  EXPECT_TRUE(std::isnan(one.scores.at(0, 2)));
  EXPECT_EQ(one.scores.at(0, 3), 0);
  EXPECT_EQ(one.indices.integers(0), Ints({2, 1, 0})) << "a NaN counts as the largest";
  EXPECT_TRUE(std::isnan(one.weights.at(0, 0)));
  EXPECT_EQ(one.weights.at(0, 1), 1);
}

TEST(MoeRouteNonFinite, BiasesMayCloseAndOpenExperts) {
  const RouteCase one = routed({.top_k = 2, .score = RouteScore::sigmoid}, {0, 0, 0, 0},
                               {0, -kInfinity, kInfinity, NAN});
  EXPECT_EQ(one.indices.integers(0), Ints({3, 2}));
  EXPECT_EQ(one.weights.row(0), std::vector<float>({0.5f, 0.5f}));
}

TEST(MoeRouteNonFinite, GroupsOfNanAreTheLargest) {
  const RouteCase one =
      routed({.top_k = 2, .score = RouteScore::sigmoid, .expert_groups = 3, .top_groups = 1},
             {9, 9, 0, NAN, 9, 9});
  EXPECT_EQ(one.indices.integers(0), Ints({3, 2}));
  const RouteCase all =
      routed({.top_k = 2, .expert_groups = 3, .top_groups = 2}, std::vector<float>(6, NAN));
  EXPECT_EQ(all.indices.integers(0), Ints({0, 1}));
}

// Weights whose sum is 0 are 0, not NaN.
TEST(MoeRouteNonFinite, ClosedExpertsHaveWeightZero) {
  const RouteCase one =
      routed({.top_k = 2, .score = RouteScore::sigmoid}, {-kInfinity, -kInfinity, -kInfinity});
  EXPECT_EQ(one.weights.row(0), std::vector<float>({0, 0}));
  EXPECT_EQ(one.indices.integers(0), Ints({0, 1}));
}

}  // namespace
}  // namespace octet
