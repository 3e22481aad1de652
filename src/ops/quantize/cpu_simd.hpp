// The SIMD quantiser with its instruction set given: what kQuantizeCpuSimd runs with the best set
// of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/quantize.hpp>

namespace octet {

// Arguments are checked already.
void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args, int threads,
                       InstructionSet instructions);

}  // namespace octet
