// moe_route, forward and backward. Scores are judged against f64; the choice, which may hang on the
// last bit of a score, from the scores that the operator wrote; weights and gradients for the
// choice that it made.
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/reference/on_host.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace octet {
namespace {

using Doubles = std::vector<double>;

std::vector<std::int64_t> all_rows(std::int64_t rows) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(rows));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

// The places of the `count` largest values, descending, the lower place first among equals.
std::vector<std::size_t> largest_places(const Doubles& values, std::int64_t count) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

std::vector<std::size_t> chosen_experts(const MoeRouteProblem& problem, Doubles biased) {
  const auto length = static_cast<std::size_t>(problem.experts / problem.expert_groups);
  Doubles groups;
  for (std::size_t first = 0; first < biased.size(); first += length) {
    Doubles members(biased.begin() + static_cast<std::ptrdiff_t>(first),
                    biased.begin() + static_cast<std::ptrdiff_t>(first + length));
    std::sort(members.rbegin(), members.rend());
    const bool two = problem.group_score == ExpertGroupScore::best_two && length > 1;
    groups.push_back(two ? rounded(members[0] + members[1], Dtype::f32) : members[0]);
  }
  std::vector<bool> open(groups.size(), false);
  for (const std::size_t group : largest_places(groups, problem.top_groups)) open[group] = true;
  for (std::size_t i = 0; i < biased.size(); ++i) {
    if (!open[i / length]) biased[i] = -std::numeric_limits<double>::infinity();
  }
  return largest_places(biased, problem.top_k);
}

struct Inputs {
  Tensor logits, bias, dweights, dscores;

  Inputs(const MoeRouteProblem& p, const DataOptions& options)
      : logits(random_matrix(p.dtype, p.tokens, p.experts, 0, options, p.device)),
        bias(random_matrix(Dtype::f32, 1, p.experts, 1, options, p.device)),
        dweights(random_matrix(Dtype::f32, p.tokens, p.top_k, 2, options, p.device)),
        dscores(random_matrix(Dtype::f32, p.tokens, p.experts, 3, options, p.device)) {}
};

struct Outputs {
  IntegersTwice indices;
  WrittenTwice weights, scores, dlogits;

  Outputs(const MoeRouteProblem& p, std::int64_t gap)
      : indices(p.tokens, p.top_k, gap, p.device),
        weights(Dtype::f32, p.tokens, p.top_k, gap, p.device),
        scores(Dtype::f32, p.tokens, p.experts, gap, p.device),
        dlogits(p.dtype, p.tokens, p.experts, gap, p.device) {}
};

// The formulas of octet/ops/moe_route.hpp in f64.
class Reference {
 public:
  Reference(const MoeRouteProblem& problem, const Inputs& in, const Outputs& out)
      : problem_(problem),
        logits_(in.logits, all_rows(problem.tokens)),
        dweights_(in.dweights, all_rows(problem.tokens)),
        dscores_(in.dscores, all_rows(problem.tokens)),
        written_(out.scores.view(0), all_rows(problem.tokens)),
        bias_(decoded(as_vector(in.bias))),
        indices_(out.indices.values()) {}

  void scores_row(std::int64_t token, std::span<double> scores) const {
    logits_.read(token, scores);
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& value : scores) {
      value = problem_.score == RouteScore::softmax ? std::exp(value - largest)
                                                    : 1 / (1 + std::exp(-value));
      sum += value;
    }
    if (problem_.score != RouteScore::softmax) return;
    for (double& value : scores) value /= sum;
  }

  void weights_row(std::int64_t token, std::span<double> weights) const {
    const Doubles chosen = chosen_scores(token);
    const double divisor = problem_.normalize ? sum_of(chosen) : 1;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      weights[k] = chosen[k] / divisor * double{problem_.scale};
    }
  }

  void dlogits_row(std::int64_t token, std::span<double> dlogits) const {
    Doubles scores(dlogits.size()), dscore(dlogits.size());
    Doubles dweights(static_cast<std::size_t>(problem_.top_k));
    scores_row(token, scores);
    dscores_.read(token, dscore);
    dweights_.read(token, dweights);
    const Doubles chosen = chosen_scores(token);
    const double divisor = problem_.normalize ? sum_of(chosen) : 1;
    const double mean = problem_.normalize ? inner_product(dweights, chosen) / divisor : 0;
    for (std::size_t k = 0; k < dweights.size(); ++k) {
      dscore[index(token, k)] += (dweights[k] - mean) / divisor * double{problem_.scale};
    }
    const double shared = inner_product(dscore, scores);
    for (std::size_t i = 0; i < dlogits.size(); ++i) {
      dlogits[i] = problem_.score == RouteScore::softmax ? scores[i] * (dscore[i] - shared)
                                                         : dscore[i] * scores[i] * (1 - scores[i]);
    }
  }

  // From the scores that were written.
  std::vector<std::int32_t> choice() const {
    std::vector<std::int32_t> choice;
    Doubles biased(static_cast<std::size_t>(problem_.experts));
    for (std::int64_t token = 0; token < problem_.tokens; ++token) {
      written_.read(token, biased);
      for (std::size_t i = 0; problem_.bias && i < biased.size(); ++i) {
        biased[i] = rounded(biased[i] + bias_[i], Dtype::f32);
      }
      for (const std::size_t expert : chosen_experts(problem_, biased)) {
        choice.push_back(static_cast<std::int32_t>(expert));
      }
    }
    return choice;
  }

 private:
  // An index that is no expert fails the judgement of the choice; here it only has to be harmless.
  std::size_t index(std::int64_t token, std::size_t k) const {
    const auto slot = static_cast<std::size_t>(token * problem_.top_k) + k;
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(indices_[slot], 0, problem_.experts - 1));
  }
  Doubles chosen_scores(std::int64_t token) const {
    Doubles scores(static_cast<std::size_t>(problem_.experts)), chosen;
    scores_row(token, scores);
    for (std::size_t k = 0; k < static_cast<std::size_t>(problem_.top_k); ++k) {
      chosen.push_back(scores[index(token, k)]);
    }
    return chosen;
  }
  static double sum_of(const Doubles& values) {
    return std::accumulate(values.begin(), values.end(), 1e-20);
  }
  static double inner_product(const Doubles& a, const Doubles& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  const MoeRouteProblem& problem_;
  DecodedRows logits_, dweights_, dscores_, written_;
  Doubles bias_;
  std::vector<std::int32_t> indices_;
};

GateReport judge_moe_route(const MoeRouteProblem& problem, const DataOptions& options) {
  const Inputs in(problem, options);
  const Outputs out(problem, options.row_gap);
  const PlanOptions plan{options.backend, options.threads};
  const TensorView bias = as_vector(in.bias);
  for (int call = 0; call < 2; ++call) {
    run_once(plan_moe_route_forward(problem, plan),
             MoeRouteForwardArgs{in.logits, bias, out.indices.view(call), out.weights.view(call),
                                 out.scores.view(call)},
             problem.device);
    run_once(plan_moe_route_backward(problem, plan),
             MoeRouteBackwardArgs{out.scores.view(call), out.indices.view(call), in.dweights,
                                  in.dscores, out.dlogits.view(call)},
             problem.device);
  }
  const JudgeOptions judging = judge_options(options, problem.device);
  const Reference reference(problem, in, out);
  GateReport report;
  out.scores.judge("scores", rows_of(reference, &Reference::scores_row), judging, report);
  out.indices.judge("indices", reference.choice(), report);
  out.weights.judge("weights", rows_of(reference, &Reference::weights_row), judging, report);
  out.dlogits.judge("dlogits", rows_of(reference, &Reference::dlogits_row), judging, report);
  return report;
}

}  // namespace

GateReport check_moe_route(const MoeRouteProblem& problem, const DataOptions& options) {
  check_extent("check moe_route", "tokens", problem.tokens);
  // A plan refuses what cannot run before any data is made.
  (void)plan_moe_route_forward(problem, {options.backend, options.threads});
  return within_memory("moe_route", describe(problem),
                       [&] { return judge_moe_route(problem, options); });
}

}  // namespace octet
