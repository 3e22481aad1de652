// The SIMD implementation with its instruction set given: what kRmsNorm*CpuSimd run with the best
// set of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/rms_norm/problem.hpp"

namespace octet {

// One row of a forward call; w is zero-filled up to a multiple of kWeightStep.
struct NormedRow {
  std::int64_t cols = 0;
  const void* x = nullptr;
  const void* residual = nullptr;  // null: none
  const void* next_x = nullptr;    // the row that follows, to be prefetched; or null
  const void* next_residual = nullptr;
  const float* w = nullptr;
  void* y = nullptr;
  void* sum = nullptr;
  float eps = 0;
  bool stream_y = false;  // past the caches: the row starts on a 64-byte boundary
  bool stream_sum = false;
};

// One row of a backward call.
struct GradientRow {
  std::int64_t cols = 0;
  const void* dy = nullptr;
  const void* h = nullptr;
  const void* next_dy = nullptr;  // of the row that follows, to be prefetched; or null
  const void* next_h = nullptr;
  const float* w = nullptr;
  float rstd = 0;
  const void* dsum = nullptr;  // null: none
  void* dx = nullptr;
  void* dresidual = nullptr;  // null: not written
  float* dg_sums = nullptr;   // the row's share is added; as long as w
  bool stream = false;        // dx and dresidual
};

inline constexpr std::int64_t kWeightStep = 32;

// The kernels of one instruction set for rows of one dtype.
struct RmsNormKernels {
  float (*norm_row)(const NormedRow& row);  // returns rstd
  void (*backward_row)(const GradientRow& row);
};
const RmsNormKernels& rms_norm_kernels(Dtype dtype, InstructionSet instructions);

// Arguments are checked already; the workspace has the size of the implementation's plan.
void rms_norm_forward_cpu_simd(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context, InstructionSet instructions);
void rms_norm_backward_cpu_simd(const RmsNormProblem& problem, const RmsNormBackwardArgs& args,
                                const RunContext& context, InstructionSet instructions);

}  // namespace octet
