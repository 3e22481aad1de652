// The choice of a configuration for the Hopper product: a pure function of problem and device.
#pragma once

#include "ops/gemm/sm90/config.hpp"

#include <octet/ops/gemm.hpp>

#include <span>

namespace octet {

// Every configuration that is compiled, best first among equals.
std::span<const Sm90GemmConfig> sm90_gemm_configs();

// Whether a configuration is for the operands' dtypes and blocks, and N for its columns.
bool sm90_gemm_fits(const GemmProblem& problem, const Sm90GemmConfig& config);

// Predicted clocks of one product: the larger of what the tensor cores and the L2 cache need for
// a wave of tiles, times the waves.
double sm90_gemm_clocks(const GemmProblem& problem, const Sm90GemmConfig& config,
                        int multiprocessors);

// The configuration with the fewest predicted clocks among those that fit.
const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors);

}  // namespace octet
