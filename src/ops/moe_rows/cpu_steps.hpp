// The steps of moe_permute and moe_unpermute on the CPU, and the implementations of a pass.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/moe_rows/sm90_steps.hpp"

#include <array>
#include <memory>

namespace octet {

std::unique_ptr<RowSteps> scalar_steps(int threads);
std::unique_ptr<RowSteps> simd_steps(int threads, InstructionSet instructions);

// The kernels of simd_steps, over whole rows. `stream`: stores past the caches; the row then starts
// on a 64-byte boundary.
struct MoeRowKernels {
  void (*copy)(const void* from, std::int64_t bytes, void* to, bool stream);
  // to = round(weight * from)
  void (*scale)(const void* from, float weight, std::int64_t cols, void* to, bool stream);
  // to = round(sum of the rows in order), times their weights if these are not null.
  void (*sum)(const void* const* rows, const float* weights, std::int64_t count, std::int64_t cols,
              void* to, bool stream);
  float (*dot)(const void* a, const void* b, std::int64_t cols);
};
const MoeRowKernels& moe_row_kernels(Dtype dtype, InstructionSet instructions);

// The implementations of a pass, for which its operator has run_pass(problem, args, steps).
template <class Problem, class Args>
void run_scalar(const Problem& problem, const Args& args, const RunContext& context) {
  run_pass(problem, args, *scalar_steps(context.threads));
}
template <class Problem, class Args>
void run_simd(const Problem& problem, const Args& args, const RunContext& context,
              InstructionSet instructions) {
  run_pass(problem, args, *simd_steps(context.threads, instructions));
}
template <class Problem, class Args>
std::array<Implementation<Problem, Args>, 3> rows_implementations() {
  return {cuda_sm90_vectors<Problem, Args>(), cpu_simd<Problem, Args, run_simd<Problem, Args>>(),
          cpu_reference<Problem, Args, run_scalar<Problem, Args>>()};
}

}  // namespace octet
