// The SIMD kernels with their instruction set given: what the implementations run with the best set
// of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rope/head_steps.hpp"

namespace octet {

// Arguments are checked already; the workspace has the bytes that are asked for.
std::size_t rms_norm_rope_simd_bytes(const RmsNormRopeProblem& problem, bool backward);
void rms_norm_rope_forward_simd(const RmsNormRopeProblem& problem,
                                const RmsNormRopeForwardArgs& args, const Workspace& workspace,
                                int threads, InstructionSet instructions);
void rms_norm_rope_backward_simd(const RmsNormRopeProblem& problem,
                                 const RmsNormRopeBackwardArgs& args, const Workspace& workspace,
                                 int threads, InstructionSet instructions);

// One token of q or k for the kernels.
struct NormToken {
  const void* x = nullptr;     // its first head
  const void* dout = nullptr;  // backward
  void* out = nullptr;         // forward: out, backward: dx
  std::int64_t x_stride = 0;   // from head to head, in elements
  std::int64_t dout_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t norms = 0;
  std::int64_t heads = 0;          // per norm
  const float* weights = nullptr;  // [heads][steps][two runs], as the kernels read them
  float* rstd = nullptr;           // [norms]
  float* dg = nullptr;             // as weights; added to by backward
  float* sums = nullptr;           // scratch for a sum over half of a norm's elements
  bool stream = false;
};

// What all tokens share.
struct NormSteps {
  HeadSteps head;
  std::int64_t head_dim = 0;
  float eps = 0;
};

// The kernels of one instruction set; f32, f16, bf16.
struct NormRopeKernels {
  using SplitWeights = void (*)(const NormSteps&, const TensorView& g, bool one_plus, float* to);
  using Pass = void (*)(const NormSteps&, const NormToken&, const StepAngles&);

  std::int64_t run;  // elements of two vectors of f32
  PrepareAngles prepare[3];
  SplitWeights split_weights[3];
  Pass forward[2][3];  // rotate_half, interleaved
  Pass backward[2][3];
};
const NormRopeKernels& norm_rope_kernels(InstructionSet instructions);

}  // namespace octet
