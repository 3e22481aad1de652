// The SIMD quantiser with its instruction set given: what kQuantizeCpuSimd runs with the best set of
// the machine, and what the tests run with each.
#pragma once

#include "dispatch/machine.hpp"

#include <octet/ops/quantize.hpp>

namespace octet {

enum class InstructionSet { avx2, avx512 };

// Of a machine with AVX2.
inline InstructionSet best_instruction_set(const Machine& machine) {
  return machine.avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
}

// Arguments are checked already.
void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args, int threads,
                       InstructionSet instructions);

}  // namespace octet
