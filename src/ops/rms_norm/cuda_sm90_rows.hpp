// The launchers of the Hopper kernels of rms_norm that keep a row in registers, and their limits.
#pragma once

#include "ops/rms_norm/problem.hpp"

namespace octet {

// More columns do not fit the registers of a block.
inline constexpr std::int64_t kRmsNormRowsMostForward = 32768;
inline constexpr std::int64_t kRmsNormRowsMostBackward = 16384;

// The grid of backward. Each block writes a line of partial sums.
struct RmsNormBackwardGrid {
  std::int64_t blocks;
  int multiprocessors;
};
std::int64_t rms_norm_backward_blocks(const RmsNormProblem& problem, int multiprocessors);

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context);
void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormBackwardGrid& grid,
                               const RmsNormBackwardArgs& args, const RunContext& context);

}  // namespace octet
