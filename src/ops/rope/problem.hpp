// The checked problem of rope, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/rope/rotation.hpp"

#include <octet/ops/rope.hpp>

#include <span>

namespace octet {

// Both passes rotate q and k into their outputs; backward rotates the other way.
struct RotateArgs {
  TensorView q;
  TensorView k;
  TensorView q_out;
  TensorView k_out;
  RotationArgs rotation;
  bool inverse = false;
};

using RopeImplementation = Implementation<RopeProblem, RotateArgs>;

extern const RopeImplementation kRopeCudaSm90Heads;
extern const RopeImplementation kRopeCpuSimd;
extern const RopeImplementation kRopeCpuReference;

// In the order they are tried.
std::span<const RopeImplementation> rope_implementations();

void check(const RopeProblem& problem);

// Launches the Hopper kernels. Arguments are checked already. Throws Error if CUDA reports one.
void launch_sm90_rope(const RopeProblem& problem, const RotateArgs& args,
                      const RunContext& context);

}  // namespace octet
