// The checked problem of quantize, and what its implementations share.
#pragma once

#include "core/views.hpp"
#include "dispatch/implementation.hpp"

#include <octet/ops/quantize.hpp>

#include <span>

namespace octet {

using QuantizeImplementation = Implementation<QuantizeProblem, QuantizeArgs>;

extern const QuantizeImplementation kQuantizeCudaSm90Tile;
extern const QuantizeImplementation kQuantizeCpuSimd;
extern const QuantizeImplementation kQuantizeCpuReference;

// In the order they are tried.
std::span<const QuantizeImplementation> quantize_implementations();

void check(const QuantizeProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const QuantizeProblem& problem, const QuantizeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace);

// The tensors of one matrix of a batch.
inline QuantizeArgs matrix_of(const QuantizeProblem& problem, const QuantizeArgs& args,
                              std::int64_t index) {
  QuantizeArgs one{matrix_of(args.input, index), {}, {}};
  if (problem.block) one.out = matrix_of(args.out, index);
  if (problem.transposed_block) one.transposed = matrix_of(args.transposed, index);
  return one;
}

// How many entries of the source stand for one row of a gathered input, and how many there are.
inline std::int64_t slots_per_row(const QuantizeProblem& problem) {
  return problem.source_top_k > 0 ? problem.source_top_k : 1;
}
inline std::int64_t source_slots(const QuantizeProblem& problem) {
  return problem.source_rows * slots_per_row(problem);
}

// Launch the Hopper kernel of one matrix, of a batch and of groups.
// Arguments are checked already. Throw Error if CUDA reports one.
void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context);
void launch_sm90_batch(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context);
void launch_sm90_groups(const QuantizeProblem& problem, const QuantizeArgs& args,
                        const RunContext& context);

}  // namespace octet
