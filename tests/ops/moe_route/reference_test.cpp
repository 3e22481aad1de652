// Random routings against f64: scores and weights by formula, the choice by picking the largest
// again and again, gradients by differences of the formula.
#include "ops/moe_route/case.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace octet {
namespace {

using Doubles = std::vector<double>;

Doubles scores_of(RouteScore score, const Doubles& logits) {
  Doubles scores(logits.size());
  double sum = 0;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    scores[i] = score == RouteScore::softmax ? std::exp(logits[i] - largest)
                                             : 1 / (1 + std::exp(-logits[i]));
    sum += scores[i];
  }
  if (score == RouteScore::softmax) {
    for (double& value : scores) value /= sum;
  }
  return scores;
}

Doubles weights_of(const MoeRouteProblem& problem, const Doubles& scores,
                   const std::vector<std::int32_t>& indices) {
  Doubles weights;
  double sum = 1e-20;
  for (const std::int32_t i : indices) sum += scores[static_cast<std::size_t>(i)];
  for (const std::int32_t i : indices) {
    weights.push_back(scores[static_cast<std::size_t>(i)] / (problem.normalize ? sum : 1) *
                      double{problem.scale});
  }
  return weights;
}

// Takes the largest allowed value, the lowest place first, `count` times.
std::vector<std::int32_t> pick(std::vector<float> values, std::int64_t count) {
  std::vector<std::int32_t> picked;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto best = std::max_element(values.begin(), values.end());
    picked.push_back(static_cast<std::int32_t>(best - values.begin()));
    *best = -std::numeric_limits<float>::infinity();
  }
  return picked;
}

std::vector<std::int32_t> choice_of(const MoeRouteProblem& problem, std::vector<float> biased) {
  const auto length = static_cast<std::ptrdiff_t>(problem.experts / problem.expert_groups);
  std::vector<float> groups;
  for (auto first = biased.begin(); first != biased.end(); first += length) {
    std::vector<float> members(first, first + length);
    std::sort(members.begin(), members.end(), std::greater<>());
    groups.push_back(problem.group_score == ExpertGroupScore::best ? members[0]
                                                                   : members[0] + members[1]);
  }
  const std::vector<std::int32_t> kept = pick(groups, problem.top_groups);
  for (std::size_t i = 0; i < biased.size(); ++i) {
    const auto group = static_cast<std::int32_t>(i / static_cast<std::size_t>(length));
    if (std::find(kept.begin(), kept.end(), group) == kept.end()) {
      biased[i] = -std::numeric_limits<float>::infinity();
    }
  }
  return pick(std::move(biased), problem.top_k);
}

Doubles widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

void expect_close(const Doubles& found, const Doubles& wanted, double bound,
                  const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  double size = 0;
  for (const double value : wanted) size = std::max(size, std::fabs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::fabs(found[i] - wanted[i]), bound * size) << what << " " << i;
  }
}

TEST(MoeRouteReference, ForwardMatchesF64) {
  Random random(7);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RouteCase one(random_problem(random), seed);
    SCOPED_TRACE(describe(one.problem) + text(" seed ", seed));
    one.forward();
    for (std::int64_t t = 0; t < one.problem.tokens; ++t) {
      const std::vector<float> scores = one.scores.row(t);
      expect_close(widened(scores), scores_of(one.problem.score, widened(one.logits.row(t))), 1e-6,
                   "scores");
      std::vector<float> biased = scores;
      for (std::size_t i = 0; one.problem.bias && i < biased.size(); ++i) {
        biased[i] += one.bias.at(0, static_cast<std::int64_t>(i));
      }
      const std::vector<std::int32_t> indices = one.indices.integers(t);
      EXPECT_EQ(indices, choice_of(one.problem, biased));
      expect_close(widened(one.weights.row(t)), weights_of(one.problem, widened(scores), indices),
                   1e-6, "weights");
    }
    one.indices.expect_gaps_untouched();
    one.weights.expect_gaps_untouched();
    one.scores.expect_gaps_untouched();
  }
}

// The gradient of sum(dweights * weights) + sum(dscores * scores), by central differences.
Doubles gradient_of(const RouteCase& one, std::int64_t token, bool with_dscores) {
  const std::vector<std::int32_t> indices = one.indices.integers(token);
  const auto loss = [&](const Doubles& logits) {
    const Doubles scores = scores_of(one.problem.score, logits);
    const Doubles weights = weights_of(one.problem, scores, indices);
    double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      sum += weights[k] * double{one.dweights.at(token, static_cast<std::int64_t>(k))};
    }
    for (std::size_t i = 0; with_dscores && i < scores.size(); ++i) {
      sum += scores[i] * double{one.dscores.at(token, static_cast<std::int64_t>(i))};
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  Doubles logits = widened(one.logits.row(token));
  Doubles gradient;
  for (double& logit : logits) {
    const double here = logit;
    logit = here + kStep;
    const double above = loss(logits);
    logit = here - kStep;
    gradient.push_back((above - loss(logits)) / (2 * kStep));
    logit = here;
  }
  return gradient;
}

TEST(MoeRouteReference, BackwardMatchesDifferences) {
  Random random(8);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const RouteCase one(random_problem(random), seed);
    SCOPED_TRACE(describe(one.problem) + text(" seed ", seed));
    const double bound = one.problem.dtype == Dtype::f32 ? 1e-5 : 1e-2;
    one.forward();
    for (const bool with_dscores : {true, false}) {
      one.backward(with_dscores);
      for (std::int64_t t = 0; t < one.problem.tokens; ++t) {
        Doubles wanted = gradient_of(one, t, with_dscores);
        // Where gradients cancel, what is left of them are roundings.
        wanted.push_back(0.1);
        Doubles found = widened(one.dlogits.row(t));
        found.push_back(0.1);
        expect_close(found, wanted, bound, "dlogits");
      }
    }
    one.dlogits.expect_gaps_untouched();
  }
}

TEST(MoeRouteReference, TakesTheLargestProblem) {
  for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
    const RouteCase one(
        {.tokens = 3, .experts = 1024, .top_k = 64, .dtype = Dtype::f32, .score = score});
    one.forward();
    for (std::int64_t t = 0; t < 3; ++t) {
      EXPECT_EQ(one.indices.integers(t), choice_of(one.problem, one.scores.row(t)));
    }
  }
}

TEST(MoeRouteThreads, TheirNumberChangesNoBit) {
  const MoeRouteProblem problem{.tokens = 200, .experts = 61, .top_k = 7};
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    const RouteCase one(problem), many(problem);
    one.forward({backend, 1});
    many.forward({backend, 5});
    EXPECT_EQ(many.indices.bytes(), one.indices.bytes());
    EXPECT_EQ(many.weights.bytes(), one.weights.bytes());
    EXPECT_EQ(many.scores.bytes(), one.scores.bytes());
    one.backward(true, {backend, 1});
    many.backward(true, {backend, 5});
    EXPECT_EQ(many.dlogits.bytes(), one.dlogits.bytes());
  }
}

}  // namespace
}  // namespace octet
