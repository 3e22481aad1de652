// Choices of experts that a seed repeats.
#pragma once

#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace octet {

struct MapsCase {
  MoeMapsProblem problem;
  std::vector<std::int64_t> indices;

  explicit MapsCase(std::uint64_t seed, std::int64_t most_tokens = 80) {
    Random random(seed);
    const auto below = [&](std::int64_t bound) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
    };
    problem.tokens = below(most_tokens);
    problem.top_k = below(9) + 1;
    problem.experts = any_of({1, 2, 7, 64, 1024}, random);
    problem.groups = below(problem.experts) + 1;
    problem.first_expert = below(problem.experts - problem.groups + 1);
    problem.rows = any_of(
        {problem.tokens * problem.top_k, std::int64_t{1}, std::int64_t{100}, std::int64_t{1000}},
        random);
    problem.rows = std::max<std::int64_t>(problem.rows, 1);
    problem.capacity = below(3) == 0 ? below(20) : 0;
    problem.indices_dtype = any_of({Dtype::i32, Dtype::i64}, random);
    const std::int64_t crowd = below(problem.experts) + 1;  // many slots may meet in few experts
    for (std::int64_t i = 0; i < problem.tokens * problem.top_k; ++i) {
      indices.push_back(below(10) == 0 ? -1 : below(crowd));
    }
  }
};

}  // namespace octet
