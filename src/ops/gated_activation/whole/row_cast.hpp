// gated_activation with a scale per row on Hopper: its limits and the launcher.
#pragma once

#include "ops/fp8_output/row_threads.hpp"
#include "ops/gated_activation/problem.hpp"

namespace octet {

// Of a block, at most; row_threads(cols) of them. A multiprocessor has several blocks of few threads:
// one loads while another casts.
inline constexpr int kGatedRowThreads = 512;
inline constexpr std::int64_t kGatedRowMost = 32768;

// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_gated_row_cast(const GatedActivationProblem& problem,
                                const GatedActivationForwardArgs& args, const RunContext& context);

}  // namespace octet
