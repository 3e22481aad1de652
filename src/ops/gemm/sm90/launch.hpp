// The launch of the Hopper product: all that is known of it once problem and configuration are.
#pragma once

#include "ops/gemm/problem.hpp"
#include "ops/gemm/sm90/config.hpp"

namespace octet {

// What runs the problem with `config`, which fits it (choose.hpp). Nothing on the device is touched
// before the first run. A run throws Error where the device refuses, or where the kernel cannot read a
// layout.
std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem& problem,
                                                                      const Sm90GemmConfig& config,
                                                                      int multiprocessors);

}  // namespace octet
