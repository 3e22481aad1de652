// The SIMD kernels of gated_activation over runs of one row, and the operator with its instruction
// set given: what the implementations run with the best set of the machine, and the tests with
// each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/gated_activation/problem.hpp"

namespace octet {

struct ForwardRun {
  const void* gate;
  const void* up;
  void* y;
  std::int64_t count;
  float weight;  // of the row, or 1
  bool stream;   // y is aligned to 64 bytes, and written past the caches
};

struct BackwardRun {
  const void* dy;
  const void* gate;
  const void* up;
  void* dgate;
  void* dup;
  std::int64_t count;
  float weight;
  bool stream;  // as for y
};

using ForwardKernel = void (*)(const ForwardRun& run);
// Returns the run's share of d_row_weight.
using BackwardKernel = float (*)(const BackwardRun& run);

// The kernels of one instruction set and dtype, by activation.
struct GatedActivationKernels {
  ForwardKernel forward[4];
  BackwardKernel backward[4];
};

const GatedActivationKernels& gated_activation_kernels(InstructionSet instructions, Dtype dtype);

// Arguments are checked already; the workspace has the size of the implementation's plan.
void gated_activation_forward_cpu_simd(const GatedActivationProblem& problem,
                                       const GatedActivationForwardArgs& args,
                                       const RunContext& context, InstructionSet instructions);
void gated_activation_backward_cpu_simd(const GatedActivationProblem& problem,
                                        const GatedActivationBackwardArgs& args,
                                        const RunContext& context, InstructionSet instructions);

}  // namespace octet
