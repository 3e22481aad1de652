// The checked problem of gated_activation, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/gated_activation.hpp>
#include <octet/ops/quantize.hpp>

#include <span>

namespace octet {

using GatedActivationForwardImplementation =
    Implementation<GatedActivationProblem, GatedActivationForwardArgs>;
using GatedActivationBackwardImplementation =
    Implementation<GatedActivationProblem, GatedActivationBackwardArgs>;

extern const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90Tile;
extern const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90RowCast;
extern const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90Vectors;
extern const GatedActivationForwardImplementation kGatedActivationForwardCpuSimd;
extern const GatedActivationForwardImplementation kGatedActivationForwardUnfused;
extern const GatedActivationForwardImplementation kGatedActivationForwardCpuReference;
extern const GatedActivationBackwardImplementation kGatedActivationBackwardCudaSm90Tile;
extern const GatedActivationBackwardImplementation kGatedActivationBackwardCudaSm90Vectors;
extern const GatedActivationBackwardImplementation kGatedActivationBackwardCpuSimd;
extern const GatedActivationBackwardImplementation kGatedActivationBackwardUnfused;
extern const GatedActivationBackwardImplementation kGatedActivationBackwardCpuReference;

// In the order they are tried.
std::span<const GatedActivationForwardImplementation> gated_activation_forward_implementations();
std::span<const GatedActivationBackwardImplementation> gated_activation_backward_implementations();

// What is quantised with fp8: y, or both gradients side by side.
QuantizeProblem forward_cast(const GatedActivationProblem& problem);
QuantizeProblem backward_cast(const GatedActivationProblem& problem);

// How many of the rows are computed: those of the groups, or all. The table is on the CPU.
std::int64_t computed_rows(const GatedActivationProblem& problem, const TensorView& table);

// Checks that the activation is one of the enum's. Errors name `op`.
void check_activation(std::string_view op, GateActivation activation);
void check(const GatedActivationProblem& problem);
// Checks the tensors and the workspace of a call. Returns the arguments without the views that the
// problem ignores.
GatedActivationForwardArgs check(const GatedActivationProblem& problem,
                                 GatedActivationForwardArgs args, std::size_t workspace_bytes,
                                 const Workspace& workspace);
GatedActivationBackwardArgs check(const GatedActivationProblem& problem,
                                  GatedActivationBackwardArgs args, std::size_t workspace_bytes,
                                  const Workspace& workspace);

// The launchers of the Hopper kernels: in 16 or 32 bits and to FP8, without groups and over groups.
// Arguments are checked already. Throw Error if CUDA reports one.
void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationForwardArgs& args, const RunContext& context);
void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationBackwardArgs& args, const RunContext& context);
void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationForwardArgs& args, const RunContext& context);
void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationBackwardArgs& args, const RunContext& context);
void launch_sm90_gated_group_rows(const GatedActivationProblem& problem,
                                  const GatedActivationForwardArgs& args,
                                  const RunContext& context);
void launch_sm90_gated_group_rows(const GatedActivationProblem& problem,
                                  const GatedActivationBackwardArgs& args,
                                  const RunContext& context);
void launch_sm90_gated_groups(const GatedActivationProblem& problem,
                              const GatedActivationForwardArgs& args, const RunContext& context);
void launch_sm90_gated_groups(const GatedActivationProblem& problem,
                              const GatedActivationBackwardArgs& args, const RunContext& context);

}  // namespace octet
