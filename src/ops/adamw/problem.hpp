// The checked problem of adamw, and what its implementations share.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/adamw.hpp>

#include <span>

namespace octet {

using AdamWImplementation = Implementation<AdamWProblem, AdamWArgs>;

extern const AdamWImplementation kAdamWCudaSm90Tile;
extern const AdamWImplementation kAdamWCudaSm90Vectors;
extern const AdamWImplementation kAdamWCpuSimd;
extern const AdamWImplementation kAdamWUnfused;
extern const AdamWImplementation kAdamWCpuReference;

// In the order they are tried.
std::span<const AdamWImplementation> adamw_implementations();

void check(const AdamWProblem& problem);
// Checks the tensors, the factors and the workspace of a call. Returns the arguments without the
// views that the problem ignores.
AdamWArgs check(const AdamWProblem& problem, AdamWArgs args, std::size_t workspace_bytes,
                const Workspace& workspace);

// Why an implementation that writes no FP8 refuses a problem that asks for it.
inline constexpr const char* kAdamWNoFp8 = "does not write FP8 output: unfused does";

// The factors of a step as every implementation uses them; octet/ops/adamw.hpp has their meaning.
struct AdamWFactors {
  float beta1, rest1;
  float beta2, rest2;
  float root_factor;
  float eps;
  float step_size;
  float decay;
};
AdamWFactors factors_of(const AdamWArgs& args);

// cpu_simd with its instruction set given: the plan has the best set of the machine, the tests run
// each. Arguments are checked already.
void adamw_cpu_simd(const AdamWProblem& problem, const AdamWArgs& args, const RunContext& context,
                    InstructionSet instructions);

// Whether there is a Hopper kernel with these dtypes at compile time. Others go element by element.
bool has_adamw_vectors(const AdamWProblem& problem);
// The same with FP8 output: the dtypes that octet.torch has. Others run unfused.
bool has_adamw_tile(const AdamWProblem& problem);

// The launchers of the Hopper kernels: without FP8 output, and with it. Arguments are checked
// already. Throw Error if CUDA reports one.
void launch_sm90_adamw(const AdamWProblem& problem, const AdamWArgs& args,
                       const RunContext& context);
void launch_sm90_adamw_tile(const AdamWProblem& problem, const AdamWArgs& args,
                            const RunContext& context);

}  // namespace octet
