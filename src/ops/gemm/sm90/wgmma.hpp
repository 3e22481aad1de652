// The host side of cuda_sm90_wgmma, the Hopper product: the choice of a configuration, its kernel,
// and the launch.
#pragma once

#include "ops/gemm/problem.hpp"
#include "ops/gemm/sm90/config.hpp"

#include <span>

namespace octet {

// Every configuration that is compiled, best first among equals.
std::span<const Sm90GemmConfig> sm90_gemm_configs();

// Whether a configuration is for the operands' dtypes, blocks and majors, and N for its columns.
bool sm90_gemm_fits(const GemmProblem& problem, const Sm90GemmConfig& config);

// Predicted clocks of one product: the larger of what the tensor cores and the L2 cache need for
// a wave of tiles, times the waves.
double sm90_gemm_clocks(const GemmProblem& problem, const Sm90GemmConfig& config,
                        int multiprocessors);

// The one of sm90_gemm_configs() with the fewest predicted clocks among those that fit and are not run by name only: a pure
// function of problem and device.
const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors);

// The compiled kernel of a configuration.
struct Sm90GemmKernel {
  Sm90GemmConfig config;
  const void* function;
  int shared_bytes;
};

// Those of a file each.
std::span<const Sm90GemmKernel> sm90_narrow_kernels();
std::span<const Sm90GemmKernel> sm90_promoted_kernels();
std::span<const Sm90GemmKernel> sm90_unpromoted_kernels();
std::span<const Sm90GemmKernel> sm90_bf16_kernels();
std::span<const Sm90GemmKernel> sm90_f16_kernels();
std::span<const Sm90GemmKernel> sm90_wide_kernels();

// Throws Error(internal) where a configuration was not compiled.
const Sm90GemmKernel& sm90_gemm_kernel(const Sm90GemmConfig& config);

// What runs the problem with `config`, which fits it. Nothing on the device is touched before the
// first run. A run throws Error where the device refuses, or where the kernel cannot read a layout.
std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem& problem,
                                                                      const Sm90GemmConfig& config,
                                                                      int multiprocessors);

}  // namespace octet
