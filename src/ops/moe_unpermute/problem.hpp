// The checked problem of moe_unpermute, and its passes.
#pragma once

#include "ops/moe_rows/cpu_steps.hpp"

#include <octet/ops/moe_unpermute.hpp>

#include <span>

namespace octet {

using MoeUnpermuteForwardImplementation =
    Implementation<MoeUnpermuteProblem, MoeUnpermuteForwardArgs>;
using MoeUnpermuteBackwardImplementation =
    Implementation<MoeUnpermuteProblem, MoeUnpermuteBackwardArgs>;

// In the order they are tried.
std::span<const MoeUnpermuteForwardImplementation> moe_unpermute_forward_implementations();
std::span<const MoeUnpermuteBackwardImplementation> moe_unpermute_backward_implementations();

void check(const MoeUnpermuteProblem& problem);
// Check the tensors and the workspace of a call. Return the arguments without the views that the
// problem ignores.
MoeUnpermuteForwardArgs check(const MoeUnpermuteProblem& problem, MoeUnpermuteForwardArgs args,
                              std::size_t workspace_bytes, const Workspace& workspace);
MoeUnpermuteBackwardArgs check(const MoeUnpermuteProblem& problem, MoeUnpermuteBackwardArgs args,
                               std::size_t workspace_bytes, const Workspace& workspace);

// The passes on the CPU, with the steps of an implementation. Arguments are checked already.
void run_pass(const MoeUnpermuteProblem& problem, const MoeUnpermuteForwardArgs& args,
              const RowSteps& steps);
void run_pass(const MoeUnpermuteProblem& problem, const MoeUnpermuteBackwardArgs& args,
              const RowSteps& steps);

// The passes on Hopper.
void launch_sm90(const MoeUnpermuteProblem& problem, const MoeUnpermuteForwardArgs& args,
                 const RunContext& context);
void launch_sm90(const MoeUnpermuteProblem& problem, const MoeUnpermuteBackwardArgs& args,
                 const RunContext& context);

}  // namespace octet
