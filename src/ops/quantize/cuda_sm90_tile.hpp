// The launcher of the Hopper quantiser, for the list of implementations.
#pragma once

#include "ops/quantize/problem.hpp"

namespace octet {

// Why 128x1 blocks are refused by every Hopper kernel that writes FP8.
inline constexpr const char* kNo128x1Kernel =
    "128x1 blocks have no CUDA kernel: ask for the transposed copy in 1x128 blocks";

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context);

}  // namespace octet
