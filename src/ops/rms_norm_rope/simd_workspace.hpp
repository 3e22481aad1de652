// The pieces of the SIMD kernels' workspace: scratch for the tokens of a run, and weights in the
// order the kernels read them.
#pragma once

#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rope/head_steps.hpp"

#include <algorithm>
#include <bit>

namespace octet {

// Of the widest instruction set: others need no more memory.
inline constexpr std::int64_t kWidestRun = 32;

inline std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

// Elements of the weights of one norm, or of their gradients, in whole steps.
inline std::int64_t split_length(const RmsNormRopeProblem& problem, std::int64_t heads) {
  const HeadSteps steps(rotated_heads(problem), kWidestRun);
  const auto slots = static_cast<std::int64_t>(steps.all.size());
  return heads_per_norm(problem, heads) * slots * 2 * kWidestRun;
}

// The sums of one norm; where trees of several are summed at once, as many as a full tree has.
inline std::int64_t sums_stride(const RmsNormRopeProblem& problem, std::int64_t heads,
                                std::int64_t elements_per_sum) {
  const std::int64_t sums = weight_length(problem, heads) / elements_per_sum;
  if (norms_per_token(problem, heads) == 1) return sums;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sums)));
}

// The sums and the factors of one token of each run, with room for two vectors behind them.
class TokenScratch {
 public:
  explicit TokenScratch(const RmsNormRopeProblem& problem) {
    for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
      if (heads == 0) continue;
      const std::int64_t norms = norms_per_token(problem, heads);
      sums_ = std::max(sums_, norms * sums_stride(problem, heads, 2) + 2 * kWidestRun);
      factors_ = std::max(factors_, norms + 2 * kWidestRun);
    }
  }

  std::size_t bytes(std::int64_t runs) const { return float_bytes(runs * (sums_ + factors_)); }
  void set_memory(void* memory) { data_ = static_cast<float*>(memory); }
  float* sums(std::int64_t run) const { return data_ + run * (sums_ + factors_); }
  float* factors(std::int64_t run) const { return sums(run) + sums_; }

 private:
  float* data_ = nullptr;
  std::int64_t sums_ = 0;
  std::int64_t factors_ = 0;
};

}  // namespace octet
