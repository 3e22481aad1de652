// rms_norm with a scale per row on Hopper: how the threads of a block share a row, and the launcher.
#pragma once

#include "ops/fp8_output/row_threads.hpp"
#include "ops/rms_norm/problem.hpp"

namespace octet {

inline constexpr int kNormedRowThreads = 256;  // of a block, at most
inline constexpr std::int64_t kNormedRowMost = 16384;

// The sums of at most 32 vectors of warps may have any number, more must be a power of two
// (sum_of_warps()): rows of eight vectors have all eight warps.
constexpr RowThreads normed_row_threads(std::int64_t cols) {
  const RowThreads fewest = row_threads(cols);
  return fewest.vectors == 8 ? RowThreads{8, kNormedRowThreads} : fewest;
}

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rms_norm_row_cast(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                                   const RunContext& context);

}  // namespace octet
