// dg on the CPU. The tokens are cut into runs, each of which adds into its own row of f32 in the
// workspace; then the rows are added in order. The number of runs depends only on the problem, so
// every number of threads gives the same bits.
#pragma once

#include "cpu/threads.hpp"
#include "ops/rms_norm_rope/problem.hpp"

#include <algorithm>

namespace octet {

// Enough for the threads of a large machine; 2 MiB of partial sums for 4096 weights.
inline constexpr std::int64_t kMostRuns = 128;

inline std::int64_t run_count(const RmsNormRopeProblem& problem) {
  const std::int64_t tokens = problem.batch * problem.seq;
  return tokens < kMostRuns ? tokens : kMostRuns;
}
// The first token of a run; it ends where the next one begins.
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
  // The sum, after add_rows(); 0 without tokens.
  float sum(std::int64_t index) const { return runs_ > 0 ? data_[index] : 0; }

 private:
  float* data_;
  std::int64_t runs_;
  std::int64_t length_;
};

inline float* GradientRows::cleared_row(std::int64_t run) const {
  float* row = data_ + run * length_;
  std::fill_n(row, length_, 0.0f);
  return row;
}

inline void GradientRows::add_rows(int threads) const {
  constexpr std::int64_t kColumns = 512;
  parallel_for(threads, ceil_div(length_, kColumns), [&](std::int64_t part) {
    const std::int64_t begin = part * kColumns;
    const std::int64_t end = std::min(begin + kColumns, length_);
    for (std::int64_t run = 1; run < runs_; ++run) {
      const float* row = data_ + run * length_;
      for (std::int64_t c = begin; c < end; ++c) data_[c] += row[c];
    }
  });
}

}  // namespace octet
