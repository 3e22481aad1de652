// The checked problem of moe_permute, and its passes.
#pragma once

#include "ops/moe_rows/cpu_steps.hpp"

#include <octet/ops/moe_permute.hpp>

#include <span>

namespace octet {

using MoePermuteForwardImplementation = Implementation<MoePermuteProblem, MoePermuteForwardArgs>;
using MoePermuteBackwardImplementation = Implementation<MoePermuteProblem, MoePermuteBackwardArgs>;

// In the order they are tried.
std::span<const MoePermuteForwardImplementation> moe_permute_forward_implementations();
std::span<const MoePermuteBackwardImplementation> moe_permute_backward_implementations();

void check(const MoePermuteProblem& problem);
// Check the tensors and the workspace of a call. Return the arguments without the views that the
// problem ignores.
MoePermuteForwardArgs check(const MoePermuteProblem& problem, MoePermuteForwardArgs args,
                            std::size_t workspace_bytes, const Workspace& workspace);
MoePermuteBackwardArgs check(const MoePermuteProblem& problem, MoePermuteBackwardArgs args,
                             std::size_t workspace_bytes, const Workspace& workspace);

// The passes on the CPU, with the steps of an implementation. Arguments are checked already.
void run_pass(const MoePermuteProblem& problem, const MoePermuteForwardArgs& args,
              const RowSteps& steps);
void run_pass(const MoePermuteProblem& problem, const MoePermuteBackwardArgs& args,
              const RowSteps& steps);

// The passes on Hopper.
void launch_sm90(const MoePermuteProblem& problem, const MoePermuteForwardArgs& args,
                 const RunContext& context);
void launch_sm90(const MoePermuteProblem& problem, const MoePermuteBackwardArgs& args,
                 const RunContext& context);

}  // namespace octet
