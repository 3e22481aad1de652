// The SIMD kernels with their instruction set given: what the implementations run with the best set
// of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rope/head_steps.hpp"

namespace octet {

// Arguments are checked already; the workspace has rms_norm_rope_simd_bytes().
std::size_t rms_norm_rope_simd_bytes(const RmsNormRopeProblem& problem, bool backward);
void rms_norm_rope_forward_simd(const RmsNormRopeProblem& problem,
                                const RmsNormRopeForwardArgs& args, const RunContext& context,
                                InstructionSet instructions);
void rms_norm_rope_backward_simd(const RmsNormRopeProblem& problem,
                                 const RmsNormRopeBackwardArgs& args, const RunContext& context,
                                 InstructionSet instructions);

// One token of q or k for the kernels. Pointers are to its first head, strides are from head to
// head, in elements.
struct NormToken {
  const void* x = nullptr;
  const void* dout = nullptr;       // backward
  void* out = nullptr;              // forward: out, backward: dx
  const void* next_x = nullptr;     // x of the next token, to be prefetched
  const void* next_dout = nullptr;  // the same, backward
  std::int64_t x_stride = 0;
  std::int64_t dout_stride = 0;
  std::int64_t out_stride = 0;
  bool stream = false;

  std::int64_t norms = 0;
  std::int64_t heads = 0;          // per norm
  const float* weights = nullptr;  // [heads][steps][two runs], as the kernels read them
  const float* rstd = nullptr;     // [norms], backward
  float* dg = nullptr;             // as weights; backward adds to it
  float* factors = nullptr;        // [norms]: forward: rstd, backward: k
  float* sums = nullptr;           // [norms][sums_stride], scratch
  std::int64_t sums_stride = 0;    // of one norm; with several norms a power of two
  std::int64_t elements_per_sum = 2;
};

// What all tokens share.
struct NormSteps {
  const HeadStep* all = nullptr;
  std::int64_t count = 0;
  std::int64_t rotated = 0;
  bool interleaved = false;
  std::int64_t head_dim = 0;
  float eps = 0;
};

// The kernels of one instruction set; f32, f16, bf16.
struct NormRopeKernels {
  using SplitWeights = void (*)(NormSteps, const TensorView& g, bool one_plus, float* to);
  using Pass = void (*)(NormSteps, NormToken, const StepAngles&);

  std::int64_t run;  // elements of two vectors of f32
  PrepareAngles prepare[3];
  SplitWeights split_weights[3];
  Pass forward[3];
  Pass backward[3];
};
const NormRopeKernels& norm_rope_kernels(InstructionSet instructions);

}  // namespace octet
