// rms_norm, rope, rms_norm_rope and gated_activation.
#include "tool/machine/support.hpp"

#include "ops/gated_activation/problem.hpp"
#include "ops/rms_norm/problem.hpp"
#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rope/problem.hpp"

namespace octet::tool {
namespace {

// The answers for forward and backward where they differ: every device needs both.
std::vector<std::string> both(const std::vector<std::string>& forward,
                              const std::vector<std::string>& backward) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (forward[i] == backward[i] || is_refusal(forward[i])) {
      result.push_back(forward[i]);
    } else if (is_refusal(backward[i])) {
      result.push_back(backward[i]);
    } else {
      result.push_back(fmt::format("{} backward={}", forward[i], backward[i]));
    }
  }
  return result;
}

// An operator on rows, whose output has the dtype of the input or is FP8.
template <class Problem, class ForwardArgs, class BackwardArgs>
std::vector<Support> probe_rows(const std::string& op,
                                std::span<const Implementation<Problem, ForwardArgs>> forward,
                                std::span<const Implementation<Problem, BackwardArgs>> backward) {
  std::vector<Support> result;
  for (const Dtype dtype : kProbeFloats) {
    const auto add = [&](const std::string& output, const std::optional<Fp8Output>& fp8) {
      Problem problem;
      problem.rows = problem.cols = kProbeExtent;
      problem.dtype = dtype;
      problem.fp8 = fp8;
      result.push_back({op, fp8 ? "1x128 both ways" : "none", std::string(name(dtype)), output,
                        both(answers(forward, problem), answers(backward, problem))});
    };
    add("the same", std::nullopt);
    for (const Dtype format : kProbeFp8) {
      add(std::string(name(format)), Fp8Output{.format = format});
    }
  }
  return result;
}

template <class Problem>
void set_heads(Problem& problem, Dtype dtype) {
  problem.seq = kProbeExtent;
  problem.q_heads = 8;
  problem.k_heads = 2;
  problem.head_dim = 128;
  problem.dtype = dtype;
}

}  // namespace

std::vector<Support> probe_rms_norm() {
  return probe_rows("rms_norm", rms_norm_forward_implementations(),
                    rms_norm_backward_implementations());
}

std::vector<Support> probe_rope() {
  std::vector<Support> result;
  for (const Dtype dtype : kProbeFloats) {
    RopeProblem problem;
    set_heads(problem, dtype);
    RopeProblem inverse = problem;
    inverse.inverse = true;
    result.push_back(
        {"rope", "none", std::string(name(dtype)), "the same",
         both(answers(rope_implementations(), problem), answers(rope_implementations(), inverse))});
  }
  return result;
}

std::vector<Support> probe_rms_norm_rope() {
  std::vector<Support> result;
  for (const NormScope scope : {NormScope::row, NormScope::head}) {
    for (const Dtype dtype : kProbeFloats) {
      RmsNormRopeProblem problem;
      set_heads(problem, dtype);
      problem.norm = scope;
      result.push_back({"rms_norm_rope",
                        scope == NormScope::row ? "none, norm by row" : "none, norm by head",
                        std::string(name(dtype)), "the same",
                        both(answers(rms_norm_rope_forward_implementations(), problem),
                             answers(rms_norm_rope_backward_implementations(), problem))});
    }
  }
  return result;
}

std::vector<Support> probe_gated_activation() {
  return probe_rows("gated_activation", gated_activation_forward_implementations(),
                    gated_activation_backward_implementations());
}

}  // namespace octet::tool
