// dg on the CPU. The tokens are cut into runs, whose number depends on nothing but the problem; each
// run adds into a row of f32 of its own in the workspace, and the rows are added in order: the same
// bits for every number of threads.
#pragma once

#include "ops/rms_norm_rope/problem.hpp"

#include <vector>

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
  GradientRows(float* data, std::int64_t length) : data_(data), length_(length) {}

  float* row(std::int64_t run) const { return data_ + run * length_; }
  std::int64_t length() const { return length_; }

 private:
  float* data_;
  std::int64_t length_;
};

std::size_t gradient_bytes(const RmsNormRopeProblem& problem);
// One for each side, cleared.
std::vector<GradientRows> gradient_rows(const RmsNormRopeProblem& problem,
                                        const Workspace& workspace);
// Adds the rows to dg. Without tokens dg becomes zero.
void write_weight_gradient(const RmsNormRopeProblem& problem, const GradientRows& rows,
                           const TensorView& dg);

}  // namespace octet
