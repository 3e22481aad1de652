// The checked problem of dequantize, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/dequantize.hpp>

#include <span>

namespace octet {

using DequantizeImplementation = Implementation<DequantizeProblem, DequantizeArgs>;

extern const DequantizeImplementation kDequantizeCpuSimd;
extern const DequantizeImplementation kDequantizeCpuReference;

// In the order they are tried.
std::span<const DequantizeImplementation> dequantize_implementations();

void check(const DequantizeProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const DequantizeProblem& problem, const DequantizeArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

}  // namespace octet
