// moe_route: the experts of every token of a mixture, and their weights; f32 inside.
//
//   forward    softmax   e[i] = exp(logits[i] - largest logit), scores[i] = e[i] / sum(e)
//              sigmoid   scores[i] = 1 / (1 + exp(-logits[i]))
//              biased[i] = scores[i] + bias[i], or scores[i]; only the choice reads it
//              indices   the top_k experts by biased, descending; ties go to the lower expert
//              s[k] = scores[indices[k]]
//              weights[k] = s[k] / (sum(s) + 1e-20) * scale, or s[k] * scale
//   backward   d = sum(s) + 1e-20, t = sum(dweights * s) / d             the choice is held fixed
//              ds[k] = (dweights[k] - t) / d * scale, or dweights[k] * scale
//              dscore[i] = dscores[i] (0 if there is none), plus ds[k] where indices[k] = i
//              softmax   dlogits[i] = round(scores[i] * (dscore[i] - sum(dscore * scores)))
//              sigmoid   dlogits[i] = round(dscore[i] * (scores[i] * (1 - scores[i])))
//
// With expert_groups the experts are cut into as many runs of equal length. A group's score is its
// best biased score, or the sum of its best two. Only experts of the top_groups best groups are
// chosen; ties go to the lower group.
//
// Every operation is one IEEE f32 rounding, and every sum is a balanced tree of neighbours, as in
// rms_norm: over the experts in order, or over the top_k in order. exp is octet's own, a fixed
// chain of fused multiply-adds within 5e-7, which is 0 below -87.69 and infinite above 88.38. So
// all outputs are the same bits (a NaN is a NaN) on every device and thread count.
//
// A NaN counts as larger than every number, so it is chosen and shows in the token's weights
// instead of vanishing; all NaNs are equal. A NaN or +infinity among logits makes every softmax
// score of its token NaN: experts 0 to top_k - 1 are then chosen, or the first of the first groups.
// sigmoid keeps NaN to the one expert, and scores infinities 1 and 0. Indices are always valid
// experts.
//
// tokens may be 0. In backward, a k whose index is no expert (-1, for example) has no gradient.
#pragma once

#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <string>

namespace octet {

inline constexpr std::int64_t kMaxExperts = 1024;
inline constexpr std::int64_t kMaxTopK = 64;

enum class RouteScore : std::int32_t { softmax = 1, sigmoid = 2 };
enum class ExpertGroupScore : std::int32_t { best = 1, best_two = 2 };

struct MoeRouteProblem {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;   // 1 to 1024
  std::int64_t top_k = 0;     // 1 to 64, at most the experts of top_groups groups
  Dtype dtype = Dtype::bf16;  // of logits and dlogits: f32, f16 or bf16
  RouteScore score = RouteScore::softmax;
  bool bias = false;               // a bias per expert, for the choice only
  std::int64_t expert_groups = 1;  // divides experts; 1: no groups
  std::int64_t top_groups = 1;     // 1 to expert_groups
  ExpertGroupScore group_score = ExpertGroupScore::best_two;
  bool normalize = true;  // the weights of a token are divided by their sum
  float scale = 1;        // of the weights; finite, >= 0
  Device device{};
};

struct MoeRouteForwardArgs {
  TensorView logits;   // [tokens, experts], columns contiguous, as in all matrices
  TensorView bias;     // [experts], f32; ignored without bias
  TensorView indices;  // [tokens, top_k], i32
  TensorView weights;  // [tokens, top_k], f32
  TensorView scores;   // [tokens, experts], f32: for backward and auxiliary losses; no data: not
                       // written
};

struct MoeRouteBackwardArgs {
  TensorView scores;    // [tokens, experts], f32, as forward wrote them
  TensorView indices;   // [tokens, top_k], i32, as forward wrote them
  TensorView dweights;  // [tokens, top_k], f32
  TensorView dscores;   // [tokens, experts], f32: the gradient that arrives at scores; empty: none
  TensorView dlogits;   // [tokens, experts]
};

using MoeRouteForwardPlan = Plan<MoeRouteProblem, ForwardPass>;
using MoeRouteBackwardPlan = Plan<MoeRouteProblem, BackwardPass>;

// "moe-route --shape 8192x256 --top-k 8 --dtype f32 --score sigmoid --device cpu"
OCTET_API std::string describe(const MoeRouteProblem& problem);
OCTET_API MoeRouteForwardPlan plan_moe_route_forward(const MoeRouteProblem& problem,
                                                     const PlanOptions& = {});
OCTET_API MoeRouteBackwardPlan plan_moe_route_backward(const MoeRouteProblem& problem,
                                                       const PlanOptions& = {});
OCTET_API void run(const MoeRouteForwardPlan& plan, const MoeRouteForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const MoeRouteBackwardPlan& plan, const MoeRouteBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
