// The compiled kernels, by configuration.
#pragma once

#include "ops/gemm/sm90/config.hpp"

namespace octet {

struct Sm90GemmKernel {
  Sm90GemmConfig config;
  const void* function;
  int shared_bytes;
};

// Throws Error(internal) where a configuration was not compiled.
const Sm90GemmKernel& sm90_gemm_kernel(const Sm90GemmConfig& config);

}  // namespace octet
