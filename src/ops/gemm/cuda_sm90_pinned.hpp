// Configurations that were measured, with the measurements: they are taken whatever the model says.
#pragma once

#include "ops/gemm/cuda_sm90_config.hpp"

#include <octet/ops/gemm.hpp>

#include <cstdint>
#include <span>

namespace octet {

struct Sm90Pinned {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const char* configuration;
  double tflops;        // of this configuration
  double rival_tflops;  // of the best other one, in the same rounds
};

// What is pinned, for a device of so many multiprocessors; empty where nothing was measured.
std::span<const Sm90Pinned> sm90_pinned(int multiprocessors);

// The pinned configuration of a problem; null where there is none.
const Sm90GemmConfig* pinned_sm90_gemm(const GemmProblem& problem, int multiprocessors);

}  // namespace octet
