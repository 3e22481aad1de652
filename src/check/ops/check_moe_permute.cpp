// moe_permute and moe_unpermute, forward and backward, with maps of random choices.
#include "check/data/expert_maps.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/reference/on_host.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

#include <numeric>

namespace octet {
namespace {

using Doubles = std::vector<double>;

// The maps and the inputs of both operators. `tokens` is x or dout, `rows` is grouped or dgrouped.
template <class Problem>
struct Inputs {
  ExpertMaps maps;
  Tensor row_of, source, tokens, rows, weights, row_weight;
  Tensor before, weights_before;  // what outputs with an untouched tail hold

  Inputs(const Problem& p, const DataOptions& options)
      : maps(random_maps(p.tokens, p.top_k, p.rows, AbsentSlots::some, options)),
        row_of(integer_tensor(maps.row_of, Dtype::i32, {p.tokens, p.top_k}, p.device)),
        source(integer_tensor(maps.source, Dtype::i32, {p.rows}, p.device)) {
    const auto random = [&](Dtype dtype, std::int64_t height, std::int64_t width,
                            std::uint32_t stream) {
      return random_matrix(dtype, height, width, stream, options, p.device);
    };
    tokens = random(p.dtype, p.tokens, p.cols, 0);
    rows = random(p.dtype, p.rows, p.cols, 1);
    weights = random(Dtype::f32, p.tokens, p.top_k, 2);
    row_weight = random(Dtype::f32, 1, p.rows, 3);
    if (p.tail == GroupTail::zero) return;
    before = random(p.dtype, p.rows, p.cols, 4);
    weights_before = random(Dtype::f32, 1, p.rows, 5);
  }
};

// The formulas of octet/ops/moe_permute.hpp and moe_unpermute.hpp in f64.
template <class Problem>
class Reference {
 public:
  Reference(const Problem& problem, const Inputs<Problem>& in)
      : problem_(problem),
        maps_(in.maps),
        tokens_(all(in.tokens)),
        rows_(all(in.rows)),
        before_(all(in.before)),
        weights_(all(in.weights)),
        row_weight_(decoded(as_vector(in.row_weight))) {
    if (problem.tail == GroupTail::untouched) {
      weights_before_ = decoded(as_vector(in.weights_before));
    }
  }

  // grouped or dgrouped.
  ReferenceRow spread(bool weighted) const {
    return [this, weighted](std::int64_t row, std::span<double> values) {
      const std::int64_t slot = maps_.source[static_cast<std::size_t>(row)];
      if (slot < 0) {
        if (before_.empty()) return std::fill(values.begin(), values.end(), 0.0);
        return before_.read(row, values);
      }
      tokens_.read(slot / problem_.top_k, values);
      if (!weighted) return;
      const double weight = weights_of(slot / problem_.top_k)[at(slot % problem_.top_k)];
      for (double& value : values) value *= weight;
    };
  }

  // out or dx.
  ReferenceRow sum(bool weighted) const {
    return [this, weighted](std::int64_t token, std::span<double> values) {
      const Doubles weights = weights_of(token);
      Doubles row(values.size());
      std::fill(values.begin(), values.end(), 0.0);
      for (std::int64_t k = 0; k < problem_.top_k; ++k) {
        if (row_of(token, k) < 0) continue;
        rows_.read(row_of(token, k), row);
        for (std::size_t c = 0; c < row.size(); ++c) {
          values[c] += (weighted ? weights[at(k)] : 1) * row[c];
        }
      }
    };
  }

  // dweights of an unpermute.
  ReferenceRow dots() const {
    return [this](std::int64_t token, std::span<double> values) {
      Doubles dout(static_cast<std::size_t>(problem_.cols)), row(dout.size());
      tokens_.read(token, dout);
      for (std::int64_t k = 0; k < problem_.top_k; ++k) {
        values[at(k)] = 0;
        if (row_of(token, k) < 0) continue;
        rows_.read(row_of(token, k), row);
        values[at(k)] = std::inner_product(dout.begin(), dout.end(), row.begin(), 0.0);
      }
    };
  }

  // row_weight and dweights of a permute.
  Doubles row_weights() const {
    Doubles result;
    for (std::size_t row = 0; row < maps_.source.size(); ++row) {
      const std::int64_t slot = maps_.source[row];
      result.push_back(slot >= 0 ? weights_of(slot / problem_.top_k)[at(slot % problem_.top_k)]
                       : weights_before_.empty() ? 0
                                                 : weights_before_[row]);
    }
    return result;
  }
  ReferenceRow weights_back() const {
    return [this](std::int64_t token, std::span<double> values) {
      for (std::int64_t k = 0; k < problem_.top_k; ++k) {
        values[at(k)] = row_of(token, k) < 0 ? 0 : row_weight_[at(row_of(token, k))];
      }
    };
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  static DecodedRows all(const Tensor& matrix) {
    if (matrix.data() == nullptr) return {};
    std::vector<std::int64_t> list(at(matrix.view().rows()));
    std::iota(list.begin(), list.end(), 0);
    return {matrix, list};
  }
  std::int64_t row_of(std::int64_t token, std::int64_t k) const {
    return maps_.row_of[at(token * problem_.top_k + k)];
  }
  Doubles weights_of(std::int64_t token) const {
    Doubles weights(at(problem_.top_k));
    weights_.read(token, weights);
    return weights;
  }

  const Problem& problem_;
  const ExpertMaps& maps_;
  DecodedRows tokens_, rows_, before_, weights_;
  Doubles row_weight_, weights_before_;
};

// The outputs of both passes of either operator.
template <class Problem>
struct Outputs {
  WrittenTwice rows, tokens, weights, row_weight;

  Outputs(const Problem& p, const Inputs<Problem>& in, std::int64_t gap)
      : rows(p.dtype, p.rows, p.cols, gap, p.device),
        tokens(p.dtype, p.tokens, p.cols, gap, p.device),
        weights(Dtype::f32, p.tokens, p.top_k, gap, p.device),
        row_weight(Dtype::f32, p.rows, p.device) {
    if (p.tail == GroupTail::zero) return;
    rows.fill_from(in.before);
    row_weight.fill_from(as_vector(in.weights_before));
  }
};

GateReport judge_permute(const MoePermuteProblem& problem, const DataOptions& options) {
  const Inputs in(problem, options);
  const Outputs out(problem, in, options.row_gap);
  const PlanOptions plan{options.backend, options.threads};
  for (int call = 0; call < 2; ++call) {
    run_once(plan_moe_permute_forward(problem, plan),
             MoePermuteForwardArgs{in.tokens, in.weights, in.row_of, in.source, out.rows.view(call),
                                   out.row_weight.view(call)},
             problem.device);
    run_once(plan_moe_permute_backward(problem, plan),
             MoePermuteBackwardArgs{in.rows, as_vector(in.row_weight), in.row_of,
                                    out.tokens.view(call), out.weights.view(call)},
             problem.device);
  }
  const JudgeOptions judging = judge_options(options, problem.device);
  const Reference reference(problem, in);
  GateReport report;
  out.rows.judge_exact("grouped", reference.spread(false), judging, report);
  out.tokens.judge("dx", reference.sum(false), judging, report);
  if (!problem.weights) return report;
  const Doubles row_weights = reference.row_weights();
  out.row_weight.judge_exact("row_weight", row_of(row_weights), judging, report);
  out.weights.judge_exact("dweights", reference.weights_back(), judging, report);
  return report;
}

GateReport judge_unpermute(const MoeUnpermuteProblem& problem, const DataOptions& options) {
  const Inputs in(problem, options);
  const Outputs out(problem, in, options.row_gap);
  const PlanOptions plan{options.backend, options.threads};
  for (int call = 0; call < 2; ++call) {
    run_once(plan_moe_unpermute_forward(problem, plan),
             MoeUnpermuteForwardArgs{in.rows, in.weights, in.row_of, out.tokens.view(call)},
             problem.device);
    run_once(plan_moe_unpermute_backward(problem, plan),
             MoeUnpermuteBackwardArgs{in.tokens, in.rows, in.weights, in.row_of, in.source,
                                      out.rows.view(call), out.weights.view(call)},
             problem.device);
  }
  const JudgeOptions judging = judge_options(options, problem.device);
  const Reference reference(problem, in);
  GateReport report;
  out.tokens.judge("out", reference.sum(problem.weights), judging, report);
  out.rows.judge("dgrouped", reference.spread(problem.weights), judging, report);
  if (problem.weights) out.weights.judge("dweights", reference.dots(), judging, report);
  return report;
}

}  // namespace

GateReport check_moe_permute(const MoePermuteProblem& problem, const DataOptions& options) {
  check_extent("check moe_permute", "tokens", problem.tokens);
  // A plan refuses what cannot run before any data is made.
  (void)plan_moe_permute_forward(problem, {options.backend, options.threads});
  return within_memory("moe_permute", describe(problem),
                       [&] { return judge_permute(problem, options); });
}

GateReport check_moe_unpermute(const MoeUnpermuteProblem& problem, const DataOptions& options) {
  check_extent("check moe_unpermute", "tokens", problem.tokens);
  (void)plan_moe_unpermute_forward(problem, {options.backend, options.threads});
  return within_memory("moe_unpermute", describe(problem),
                       [&] { return judge_unpermute(problem, options); });
}

}  // namespace octet
