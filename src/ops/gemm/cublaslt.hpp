// The launcher of the product through cuBLASLt, for the list of implementations.
#pragma once

#include "ops/gemm/problem.hpp"

namespace octet {

// NVIDIA's recommendation for Hopper.
inline constexpr std::size_t kCublasLtWorkspaceBytes = std::size_t{32} << 20;

// Arguments are checked already. Throws Error(unsupported) if cuBLASLt cannot be loaded, cannot
// read a layout or has no algorithm. The first run on a device loads the library (0.3 s); the first
// run of a problem calls its heuristic; later runs only launch.
void launch_cublaslt(const GemmProblem& problem, const GemmArgs& args, const RunContext& context);

}  // namespace octet
