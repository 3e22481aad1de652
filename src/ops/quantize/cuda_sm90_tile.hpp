// The launcher of the Hopper quantiser, for the list of implementations.
#pragma once

#include "ops/quantize/problem.hpp"

namespace octet {

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context);

}  // namespace octet
