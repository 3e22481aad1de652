// The launchers of the Hopper kernels of rms_norm_rope.
#pragma once

#include "ops/rms_norm_rope/problem.hpp"

namespace octet {

// The blocks of backward for each of q and k, each of which writes a line of partial sums.
std::int64_t rms_norm_rope_backward_blocks(const RmsNormRopeProblem& problem, int multiprocessors);

// Arguments are checked already. Throw Error if CUDA reports one.
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem,
                               const RmsNormRopeForwardArgs& args, const RunContext& context);
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem, std::int64_t blocks,
                               const RmsNormRopeBackwardArgs& args, const RunContext& context);

}  // namespace octet
