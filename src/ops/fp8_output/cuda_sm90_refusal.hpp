// Which problems the Hopper kernels that write FP8 refuse. Compiled with and without CUDA.
#pragma once

#include "core/checks.hpp"
#include "dispatch/implementation.hpp"
#include "ops/quantize/cuda_sm90_tile.hpp"

#include <octet/ops/fp8_output.hpp>

namespace octet {

// Why a problem whose FP8 output is [rows, cols] is refused; empty if it is not.
template <class Problem>
std::string refuse_fp8_on_hopper(const Problem& problem, std::int64_t rows, std::int64_t cols,
                                 const Machine& machine) {
  if (!problem.fp8) return "writes only FP8 output";
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!is_16bit(problem.dtype)) {
    return text("takes bf16 and f16, the problem has ", name(problem.dtype));
  }
  if (problem.fp8->block == kBlock128x1 || problem.fp8->transposed_block == kBlock128x1) {
    return kNo128x1Kernel;
  }
  if (ceil_div(rows, kBlock) > (std::int64_t{1} << 30) / ceil_div(cols, kBlock) - 1) {
    return "more than 2^30 tiles of 128x128";
  }
  return "";
}

}  // namespace octet
