// The SIMD implementation with its instruction set given: what kLossRowsCpuSimd runs with the best
// set of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/linear_cross_entropy/rows.hpp"

namespace octet {

struct ExpSum {
  float largest;  // of the logits
  float sum;      // of exp(logit - largest)
};

// The kernels of one instruction set for rows of one dtype.
struct LossRowsKernels {
  ExpSum (*sum_row)(const void* logits, std::int64_t cols);
  // logits = exp(logits - lse) * scale
  void (*softmax_row)(void* logits, std::int64_t cols, float lse, float scale);
};
const LossRowsKernels& loss_rows_kernels(Dtype dtype, InstructionSet instructions);

void loss_rows_cpu_simd(const LossRowsProblem& problem, const LossRowsStep& step,
                        const RunContext& context, InstructionSet instructions);

}  // namespace octet
