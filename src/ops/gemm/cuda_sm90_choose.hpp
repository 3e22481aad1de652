// The choice of a configuration for the Hopper product: a pure function of problem and device.
#pragma once

#include "ops/gemm/cuda_sm90_config.hpp"

#include <octet/ops/gemm.hpp>

#include <span>

namespace octet {

// Every configuration that is compiled, best first among equals.
std::span<const Sm90GemmConfig> sm90_gemm_configs();

// Predicted clocks of one product, from wave counts and the cost of a slice; the model behind
// choose.
double sm90_gemm_clocks(const GemmProblem& problem, const Sm90GemmConfig& config,
                        int multiprocessors);

// The cheapest configuration that fits the operands' dtypes and blocks.
const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors);

}  // namespace octet
