// The SIMD rotation with its instruction set given: what kRopeCpuSimd runs with the best set of the
// machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/rope/head_steps.hpp"
#include "ops/rope/problem.hpp"

namespace octet {

// One token of q or of k: from and to are the first elements of its first head.
struct TokenHeads {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t from_stride = 0;  // from head to head, in elements
  std::int64_t to_stride = 0;
  std::int64_t heads = 0;
  bool stream = false;  // past the caches
};
using RotateHeads = void (*)(const HeadSteps&, TokenHeads, const StepAngles&);

// The kernels of one instruction set.
struct RopeKernels {
  std::int64_t run;          // elements of two vectors of f32
  PrepareAngles prepare[3];  // f32, f16, bf16
  RotateHeads rotate[2][3];  // rotate_half, interleaved
};

// Arguments are checked already.
void rope_cpu_simd(const RopeProblem& problem, const RotateArgs& args, const RunContext& context,
                   InstructionSet instructions);

}  // namespace octet
