// The launcher of the Hopper kernel of rms_norm that writes FP8.
#pragma once

#include "ops/rms_norm/problem.hpp"

namespace octet {

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rms_norm_tile(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context);

}  // namespace octet
