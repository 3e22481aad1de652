// gated_activation with a scale per row on Hopper: how the threads of a block share a row, and the
// launcher.
#pragma once

#include "ops/gated_activation/problem.hpp"

namespace octet {

inline constexpr int kGatedRowThreads = 512;  // of a block, at most
inline constexpr std::int64_t kGatedRowMost = 32768;

struct GatedRowThreads {
  int vectors;  // of a thread, of eight elements: 2, 4 or 8
  int count;    // a multiple of 32
};

// The fewest warps that hold a row. Blocks of few threads, several of which a multiprocessor has: one
// loads while another casts.
constexpr GatedRowThreads gated_row_threads(std::int64_t cols) {
  const int vectors = cols <= 2048 ? 2 : cols <= 8192 ? 4 : 8;
  const std::int64_t of_warp = std::int64_t{256} * vectors;
  return {vectors, static_cast<int>(32 * ((cols + of_warp - 1) / of_warp))};
}

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_gated_row_cast(const GatedActivationProblem& problem,
                                const GatedActivationForwardArgs& args, const RunContext& context);

}  // namespace octet
