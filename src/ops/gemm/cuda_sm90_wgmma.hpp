// The launchers of the Hopper product: of the configuration that is chosen, for the list of
// implementations, and of one that is given, for measurements.
#pragma once

#include "ops/gemm/cuda_sm90_config.hpp"
#include "ops/gemm/problem.hpp"

namespace octet {

// On checked arguments; throws Error where the device or a layout the kernel cannot read says no.
void launch_sm90_wgmma(const GemmProblem& problem, const GemmArgs& args, const RunContext& context);

// `config` fits the problem (cuda_sm90_choose.hpp).
void launch_sm90_gemm(const Sm90GemmConfig& config, const GemmProblem& problem,
                      const GemmArgs& args, const RunContext& context);

}  // namespace octet
