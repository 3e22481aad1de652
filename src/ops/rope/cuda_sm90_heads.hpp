// The launcher of the Hopper kernels of rope.
#pragma once

#include "ops/rope/problem.hpp"

namespace octet {

// On checked arguments; throws Error where CUDA reports one.
void launch_sm90_rope(const RopeProblem& problem, const RopeArgs& args, const RunContext& context);

}  // namespace octet
