// The launchers of the Hopper kernels of gated_activation.
#pragma once

#include "ops/gated_activation/problem.hpp"

namespace octet {

// Arguments are checked already. Throw Error if CUDA reports one.
void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationForwardArgs& args, const RunContext& context);
void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationBackwardArgs& args, const RunContext& context);
void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationForwardArgs& args, const RunContext& context);
void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationBackwardArgs& args, const RunContext& context);

}  // namespace octet
