// The checked problem of quantize, and what its implementations share.
#pragma once

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

// Launches the Hopper kernel.
// Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context);

}  // namespace octet
