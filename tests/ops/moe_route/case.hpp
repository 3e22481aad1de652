// The tensors of a routing, with random contents that a seed repeats.
#pragma once

#include "ops/moe_route/problem.hpp"
#include "support/gapped.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace octet {

inline MoeRouteProblem random_problem(Random& random) {
  MoeRouteProblem problem;
  problem.tokens = static_cast<std::int64_t>(random() % 5 + 1);
  problem.expert_groups = any_of({1, 1, 2, 4, 8}, random);
  problem.experts = problem.expert_groups * any_of({2, 3, 5, 8, 17, 32, 100}, random);
  problem.top_groups = static_cast<std::int64_t>(random()) % problem.expert_groups;
  problem.top_groups = std::abs(problem.top_groups) + 1;
  const std::int64_t most =
      std::min(kMaxTopK, problem.experts / problem.expert_groups * problem.top_groups);
  problem.top_k = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
  problem.dtype = any_of({Dtype::f32, Dtype::f16, Dtype::bf16}, random);
  problem.score = any_of({RouteScore::softmax, RouteScore::sigmoid}, random);
  problem.group_score = any_of({ExpertGroupScore::best, ExpertGroupScore::best_two}, random);
  problem.bias = random() % 2 == 0;
  problem.normalize = random() % 2 == 0;
  problem.scale = any_of({1.0f, 2.5f, 0.125f}, random);
  return problem;
}

struct RouteCase {
  MoeRouteProblem problem;
  Gapped logits, bias, indices, weights, scores, dweights, dscores, dlogits;

  explicit RouteCase(const MoeRouteProblem& given, std::uint64_t seed = 1)
      : problem(given),
        logits(given.dtype, given.tokens, given.experts),
        bias(Dtype::f32, 1, given.experts),
        indices(Dtype::i32, given.tokens, given.top_k),
        weights(Dtype::f32, given.tokens, given.top_k),
        scores(Dtype::f32, given.tokens, given.experts),
        dweights(Dtype::f32, given.tokens, given.top_k),
        dscores(Dtype::f32, given.tokens, given.experts),
        dlogits(given.dtype, given.tokens, given.experts) {
    logits.fill(seed, 2);
    bias.fill(seed + 1, 0.1f);
    dweights.fill(seed + 2);
    dscores.fill(seed + 3);
  }

  TensorView bias_view() const {
    return make_view(bias.view().data, Dtype::f32, {problem.experts});
  }
  void forward(const PlanOptions& options = {}) const {
    run(plan_moe_route_forward(problem, options),
        {logits.view(), bias_view(), indices.view(), weights.view(), scores.view()});
  }
  void backward(bool with_dscores = true, const PlanOptions& options = {}) const {
    run(plan_moe_route_backward(problem, options),
        {scores.view(), indices.view(), dweights.view(),
         with_dscores ? dscores.view() : TensorView(), dlogits.view()});
  }
};

// Equal bits, or two NaNs; the gaps keep their bits.
inline void expect_equal(const Gapped& given, const Gapped& wanted, const std::string& what) {
  const TensorView& view = wanted.view();
  const std::int64_t size = size_bytes(view.dtype);
  for (std::int64_t i = 0; i < view.rows() * view.strides[0]; ++i) {
    const unsigned char* left = given.bytes().data() + i * size;
    const unsigned char* right = wanted.bytes().data() + i * size;
    if (std::memcmp(left, right, static_cast<std::size_t>(size)) == 0) continue;
    ASSERT_TRUE(view.dtype != Dtype::i32 && std::isnan(load_f32(left, 0, view.dtype)) &&
                std::isnan(load_f32(right, 0, view.dtype)))
        << what << " of token " << i / view.strides[0] << ", element " << i % view.strides[0];
  }
}

}  // namespace octet
