// The SIMD dequantiser with its instruction set given: what kDequantizeCpuSimd runs with the best
// set of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/dequantize.hpp>

namespace octet {

// out[i] = codes[i] * scales[i] for one run of kBlock elements.
using DequantizeRun = void (*)(const std::uint8_t* codes, const float* scales, void* out);

// Arguments are checked already.
void dequantize_cpu_simd(const DequantizeProblem& problem, const DequantizeArgs& args,
                         const RunContext& context, InstructionSet instructions);

}  // namespace octet
