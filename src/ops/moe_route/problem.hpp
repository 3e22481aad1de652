// The checked problem of moe_route, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/moe_route.hpp>

#include <span>

namespace octet {

using MoeRouteForwardImplementation = Implementation<MoeRouteProblem, MoeRouteForwardArgs>;
using MoeRouteBackwardImplementation = Implementation<MoeRouteProblem, MoeRouteBackwardArgs>;

extern const MoeRouteForwardImplementation kMoeRouteForwardCudaSm90Warps;
extern const MoeRouteBackwardImplementation kMoeRouteBackwardCudaSm90Warps;
extern const MoeRouteForwardImplementation kMoeRouteForwardCpuSimd;
extern const MoeRouteBackwardImplementation kMoeRouteBackwardCpuSimd;
extern const MoeRouteForwardImplementation kMoeRouteForwardCpuReference;
extern const MoeRouteBackwardImplementation kMoeRouteBackwardCpuReference;

// In the order they are tried.
std::span<const MoeRouteForwardImplementation> moe_route_forward_implementations();
std::span<const MoeRouteBackwardImplementation> moe_route_backward_implementations();

void check(const MoeRouteProblem& problem);
// Checks the tensors and the workspace of a call. Returns the arguments without the views that the
// problem ignores.
MoeRouteForwardArgs check(const MoeRouteProblem& problem, MoeRouteForwardArgs args,
                          std::size_t workspace_bytes, const Workspace& workspace);
void check(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// The launchers of the Hopper kernels. Arguments are checked already. Throw Error if CUDA reports
// one.
void launch_sm90_moe_route(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                           const RunContext& context);
void launch_sm90_moe_route(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                           const RunContext& context);

// Adds the gradient that arrives at the scores of a token through its weights to `dscore`
// [experts], on the CPU.
void add_weight_gradients(const MoeRouteProblem& problem, const float* scores,
                          const std::int32_t* indices, const float* dweights, float* dscore);

// Added to the sum of a token's weights before they are divided by it.
inline constexpr float kWeightSumEps = 1e-20f;

}  // namespace octet
