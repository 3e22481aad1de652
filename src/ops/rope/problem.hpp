// The checked problem of rope, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/rope/rotation.hpp"

#include <octet/ops/rope.hpp>

#include <span>

namespace octet {

using RopeImplementation = Implementation<RopeProblem, RopeArgs>;

extern const RopeImplementation kRopeCudaSm90Heads;
extern const RopeImplementation kRopeCpuSimd;
extern const RopeImplementation kRopeCpuReference;

// In the order they are tried.
std::span<const RopeImplementation> rope_implementations();

void check(const RopeProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const RopeProblem& problem, const RopeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace);

}  // namespace octet
