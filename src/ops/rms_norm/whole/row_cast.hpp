// rms_norm with a scale per row on Hopper: how the threads of a block share a row, and the launcher.
#pragma once

#include "ops/rms_norm/problem.hpp"

namespace octet {

// At most, of a block. A warp has 256 neighbouring elements of each of its vectors of eight.
inline constexpr int kNormedRowThreads = 256;
inline constexpr std::int64_t kNormedRowMost = 16384;

struct NormedRowThreads {
  int vectors;  // of a thread: 2, 4 or 8
  int count;    // a multiple of 32
};

// The fewest warps that hold a row. The sums of at most 32 vectors of warps may have any number, more
// must be a power of two (sum_of_warps()): rows of eight vectors have all eight warps.
constexpr NormedRowThreads normed_row_threads(std::int64_t cols) {
  const int vectors = cols <= 2048 ? 2 : cols <= 8192 ? 4 : 8;
  const std::int64_t of_warp = std::int64_t{256} * vectors;
  return {vectors, vectors == 8 ? kNormedRowThreads
                                : static_cast<int>(32 * ((cols + of_warp - 1) / of_warp))};
}

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rms_norm_row_cast(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                                   const RunContext& context);

}  // namespace octet
