// The SIMD rotation with its instruction set given: what kRopeCpuSimd runs with the best set of the
// machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/rope/head_steps.hpp"

namespace octet {

using PrepareAngles = void (*)(const AngleRows&, const std::vector<HeadStep>&, StepAngles&);
using TurnHeads = void (*)(const TokenHeads&, const std::vector<HeadStep>&, const StepAngles&);

// The kernels of one instruction set.
struct RopeKernels {
  std::int64_t run;              // elements of two vectors of f32
  PrepareAngles prepare[3];      // f32, f16, bf16
  TurnHeads turn_halves[3];      // f32, f16, bf16
  TurnHeads turn_neighbours[3];  // f32, f16, bf16
};

inline int kernel_index(Dtype dtype) {
  return dtype == Dtype::f32 ? 0 : dtype == Dtype::f16 ? 1 : 2;
}

// Arguments are checked already.
void rope_cpu_simd(const RopeProblem& problem, const RopeArgs& args, int threads,
                   InstructionSet instructions);

}  // namespace octet
