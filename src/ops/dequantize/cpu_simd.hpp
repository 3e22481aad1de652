// The SIMD dequantiser with its instruction set given: what kDequantizeCpuSimd runs with the best
// set of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/dequantize.hpp>

namespace octet {

// out[i] = codes[i] * scales[i] for one run of kBlock elements.
using DequantizeRun = void (*)(const std::uint8_t* codes, const float* scales, void* out);

// The kernels of one instruction set, by format and output.
struct DequantizeKernels {
  DequantizeRun f32[2];  // e4m3, e5m2
  DequantizeRun f16[2];
  DequantizeRun bf16[2];
};

inline DequantizeRun run_kernel(const DequantizeKernels& kernels, Dtype format, Dtype out) {
  const int column = format == Dtype::e5m2 ? 1 : 0;
  switch (out) {
    case Dtype::f16: return kernels.f16[column];
    case Dtype::bf16: return kernels.bf16[column];
    default: return kernels.f32[column];
  }
}

// Arguments are checked already.
void dequantize_cpu_simd(const DequantizeProblem& problem, const DequantizeArgs& args, int threads,
                         InstructionSet instructions);

}  // namespace octet
