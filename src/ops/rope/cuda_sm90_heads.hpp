// The launcher of the Hopper kernels of rope.
#pragma once

#include "ops/rope/problem.hpp"

namespace octet {

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rope(const RopeProblem& problem, const RotateArgs& args,
                      const RunContext& context);

}  // namespace octet
