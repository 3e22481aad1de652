// dg on the CPU. The tokens are cut into runs, whose number depends on nothing but the problem; each
// run adds into a row of f32 of its own in the workspace, and the rows are added in order: the same
// bits for every number of threads.
#pragma once

#include "ops/rms_norm_rope/problem.hpp"

namespace octet {

// Enough for the threads of a large machine; 2 MiB of partial sums for 4096 weights.
inline constexpr std::int64_t kMostRuns = 128;

inline std::int64_t run_count(const RmsNormRopeProblem& problem) {
  const std::int64_t tokens = problem.batch * problem.seq;
  return tokens < kMostRuns ? tokens : kMostRuns;
}
// The first token of a run; that of the run behind it is where it ends.
inline std::int64_t run_begin(const RmsNormRopeProblem& problem, std::int64_t run) {
  const std::int64_t tokens = problem.batch * problem.seq;
  const std::int64_t runs = run_count(problem);
  return run * (tokens / runs) + (run < tokens % runs ? run : tokens % runs);
}

// The rows of partial sums of q or k.
class GradientRows {
 public:
  GradientRows(void* data, std::int64_t runs, std::int64_t length)
      : data_(static_cast<float*>(data)), runs_(runs), length_(length) {}

  static std::size_t bytes(std::int64_t runs, std::int64_t length) {
    return static_cast<std::size_t>(runs * length) * sizeof(float);
  }

  float* cleared_row(std::int64_t run) const;
  // Adds the rows to the first, in order.
  void add_rows(int threads) const;
  // After that; without tokens everything is 0.
  float sum(std::int64_t index) const { return runs_ > 0 ? data_[index] : 0; }

 private:
  float* data_;
  std::int64_t runs_;
  std::int64_t length_;
};

}  // namespace octet
