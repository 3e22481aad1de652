// The SIMD quantiser with its instruction set given: what kQuantizeCpuSimd runs with the best set
// of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/quantize.hpp>

namespace octet {

// Arguments are checked already.
void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args, int threads,
                       InstructionSet instructions);

// Quantises rows [row, row + kBlock) of the input, or up to its end. They are read from `strip`,
// `pitch` elements apart, not from args.input. The padding of the copies is left to the caller.
void quantize_strip_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                             std::int64_t row, const void* strip, std::int64_t pitch,
                             InstructionSet instructions);

}  // namespace octet
