// The launcher of the Hopper product, for the list of implementations.
#pragma once

#include "ops/gemm/problem.hpp"

namespace octet {

// On checked arguments; throws Error where the device or a layout the kernel cannot read says no.
void launch_sm90_wgmma(const GemmProblem& problem, const GemmArgs& args, const RunContext& context);

}  // namespace octet
