// The formulas, one token at a time.
#include "core/exp_of_minus.hpp"
#include "core/tree_sum.hpp"
#include "cpu/threads.hpp"
#include "ops/moe_route/problem.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace octet {
namespace {

using PerExpert = std::array<float, kMaxExperts>;

template <class Element>
Element* row_of(const TensorView& matrix, std::int64_t row) {
  return static_cast<Element*>(matrix.data) + row * matrix.strides[0];
}

// A NaN is larger than every number.
bool is_larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return a > b;
}

// Moves the `count` largest values to the front of the list of their places, ties by place.
void sort_largest(const float* values, std::int32_t* places, std::int64_t length,
                  std::int64_t count) {
  std::partial_sort(places, places + count, places + length, [&](std::int32_t a, std::int32_t b) {
    if (is_larger(values[a], values[b])) return true;
    return !is_larger(values[b], values[a]) && a < b;
  });
}

void write_softmax(std::int64_t experts, float* scores) {
  float largest = scores[0];
  for (std::int64_t i = 1; i < experts; ++i) {
    if (is_larger(scores[i], largest)) largest = scores[i];
  }
  TreeSum sum;
  for (std::int64_t i = 0; i < experts; ++i) {
    scores[i] = exp_of_minus(largest - scores[i]);
    sum.add(scores[i]);
  }
  const float divisor = sum.sum();
  for (std::int64_t i = 0; i < experts; ++i) scores[i] = scores[i] / divisor;
}

float group_score(ExpertGroupScore rule, std::span<const float> biased) {
  float best = biased[0];
  float second = -std::numeric_limits<float>::infinity();
  for (const float score : biased.subspan(1)) {
    if (is_larger(score, best)) {
      second = best;
      best = score;
    } else if (is_larger(score, second)) {
      second = score;
    }
  }
  return rule == ExpertGroupScore::best ? best : best + second;
}

// The experts that may be chosen, in `candidates`. Returns how many they are.
std::int64_t list_candidates(const MoeRouteProblem& problem, const float* biased,
                             std::int32_t* candidates) {
  if (problem.expert_groups == 1) {
    std::iota(candidates, candidates + problem.experts, 0);
    return problem.experts;
  }
  const auto length = static_cast<std::int32_t>(problem.experts / problem.expert_groups);
  PerExpert scores{};
  std::array<std::int32_t, kMaxExperts> groups{};
  for (std::int32_t group = 0; group < problem.expert_groups; ++group) {
    scores[static_cast<std::size_t>(group)] = group_score(
        problem.group_score, {biased + group * length, static_cast<std::size_t>(length)});
    groups[static_cast<std::size_t>(group)] = group;
  }
  sort_largest(scores.data(), groups.data(), problem.expert_groups, problem.top_groups);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < problem.top_groups; ++i, count += length) {
    std::iota(candidates + count, candidates + count + length,
              groups[static_cast<std::size_t>(i)] * length);
  }
  return count;
}

void route_token(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                 std::int64_t token) {
  PerExpert scores{};
  const std::int64_t first = token * args.logits.strides[0];
  for (std::int64_t i = 0; i < problem.experts; ++i) {
    const float logit = load_f32(args.logits.data, first + i, problem.dtype);
    scores[static_cast<std::size_t>(i)] =
        problem.score == RouteScore::softmax ? logit : 1 / (1 + exp_of_minus(logit));
  }
  if (problem.score == RouteScore::softmax) write_softmax(problem.experts, scores.data());
  PerExpert biased = scores;
  if (problem.bias) {
    const auto* bias = static_cast<const float*>(args.bias.data);
    std::transform(bias, bias + problem.experts, scores.begin(), biased.begin(), std::plus());
  }

  std::array<std::int32_t, kMaxExperts> chosen{};
  const std::int64_t candidates = list_candidates(problem, biased.data(), chosen.data());
  sort_largest(biased.data(), chosen.data(), candidates, problem.top_k);
  auto* weights = row_of<float>(args.weights, token);
  TreeSum sum;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    weights[k] = scores[static_cast<std::size_t>(chosen[static_cast<std::size_t>(k)])];
    sum.add(weights[k]);
  }
  const float divisor = sum.sum() + kWeightSumEps;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    const float share = problem.normalize ? weights[k] / divisor : weights[k];
    weights[k] = share * problem.scale;
  }
  std::copy_n(chosen.begin(), problem.top_k, row_of<std::int32_t>(args.indices, token));
  if (args.scores.data != nullptr) {
    std::copy_n(scores.begin(), problem.experts, row_of<float>(args.scores, token));
  }
}

void run_forward(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                 const RunContext& context) {
  parallel_for(context.threads, problem.tokens,
               [&](std::int64_t token) { route_token(problem, args, token); });
}

}  // namespace

void add_weight_gradients(const MoeRouteProblem& problem, const float* scores,
                          const std::int32_t* indices, const float* dweights, float* dscore) {
  const auto is_expert = [&](std::int64_t k) {
    return indices[k] >= 0 && indices[k] < problem.experts;
  };
  TreeSum sum;
  TreeSum products;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    sum.add(is_expert(k) ? scores[indices[k]] : 0);
    products.add(is_expert(k) ? dweights[k] * scores[indices[k]] : 0);
  }
  const float divisor = sum.sum() + kWeightSumEps;
  const float mean = products.sum() / divisor;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    if (!is_expert(k)) continue;
    const float ds = problem.normalize ? (dweights[k] - mean) / divisor : dweights[k];
    dscore[indices[k]] += ds * problem.scale;
  }
}

namespace {

void backward_token(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                    std::int64_t token) {
  const auto* scores = row_of<const float>(args.scores, token);
  PerExpert dscore{};
  if (args.dscores.data != nullptr) {
    std::copy_n(row_of<const float>(args.dscores, token), problem.experts, dscore.begin());
  }
  add_weight_gradients(problem, scores, row_of<const std::int32_t>(args.indices, token),
                       row_of<const float>(args.dweights, token), dscore.data());
  TreeSum products;
  for (std::int64_t i = 0; i < problem.experts; ++i) {
    products.add(dscore[static_cast<std::size_t>(i)] * scores[i]);
  }
  const float mean = products.sum();
  for (std::int64_t i = 0; i < problem.experts; ++i) {
    const float ds = dscore[static_cast<std::size_t>(i)];
    const float dlogit = problem.score == RouteScore::softmax ? scores[i] * (ds - mean)
                                                              : ds * (scores[i] * (1 - scores[i]));
    store_f32(args.dlogits.data, token * args.dlogits.strides[0] + i, problem.dtype, dlogit);
  }
}

void run_backward(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                  const RunContext& context) {
  parallel_for(context.threads, problem.tokens,
               [&](std::int64_t token) { backward_token(problem, args, token); });
}

}  // namespace

constinit const MoeRouteForwardImplementation kMoeRouteForwardCpuReference =
    cpu_reference<MoeRouteProblem, MoeRouteForwardArgs, run_forward>();
constinit const MoeRouteBackwardImplementation kMoeRouteBackwardCpuReference =
    cpu_reference<MoeRouteProblem, MoeRouteBackwardArgs, run_backward>();

}  // namespace octet
