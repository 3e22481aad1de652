// The checked problem of rms_norm_rope, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/rms_norm_rope/backward_layout.hpp"
#include "ops/rope/rotation.hpp"

#include <octet/ops/rms_norm_rope.hpp>

#include <span>
#include <vector>

namespace octet {

using RmsNormRopeForwardImplementation = Implementation<RmsNormRopeProblem, RmsNormRopeForwardArgs>;
using RmsNormRopeBackwardImplementation =
    Implementation<RmsNormRopeProblem, RmsNormRopeBackwardArgs>;

extern const RmsNormRopeForwardImplementation kRmsNormRopeForwardCudaSm90Heads;
extern const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuSimd;
extern const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuReference;
extern const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCudaSm90Heads;
extern const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuSimd;
extern const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuReference;

// In the order they are tried.
std::span<const RmsNormRopeForwardImplementation> rms_norm_rope_forward_implementations();
std::span<const RmsNormRopeBackwardImplementation> rms_norm_rope_backward_implementations();

void check(const RmsNormRopeProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const RmsNormRopeProblem& problem, const RmsNormRopeForwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);
void check(const RmsNormRopeProblem& problem, const RmsNormRopeBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// The tensors of q, or of k (backward: ops/rope/rotation.hpp).
struct ForwardSide {
  std::int64_t heads = 0;
  TensorView x;
  TensorView g;
  TensorView out;
  TensorView rstd;
};
// q, and k if any.
std::vector<ForwardSide> sides_of(const RmsNormRopeProblem& problem,
                                  const RmsNormRopeForwardArgs& args);
std::vector<BackwardSide> sides_of(const RmsNormRopeProblem& problem,
                                   const RmsNormRopeBackwardArgs& args);

// For q or k with `heads` heads: norms per token, heads per norm, elements per norm.
inline std::int64_t norms_per_token(const RmsNormRopeProblem& problem, std::int64_t heads) {
  return problem.norm == NormScope::row ? 1 : heads;
}
inline std::int64_t heads_per_norm(const RmsNormRopeProblem& problem, std::int64_t heads) {
  return problem.norm == NormScope::row ? heads : 1;
}
inline std::int64_t weight_length(const RmsNormRopeProblem& problem, std::int64_t heads) {
  return heads_per_norm(problem, heads) * problem.head_dim;
}

// The blocks and threads of backward on Hopper. Each block writes a line of partial sums.
BackwardLayout rms_norm_rope_backward_layout(const RmsNormRopeProblem& problem,
                                             int multiprocessors);

// The launchers of the Hopper kernels. Arguments are checked already. Throw Error if CUDA reports
// one.
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem,
                               const RmsNormRopeForwardArgs& args, const RunContext& context);
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem, int multiprocessors,
                               const RmsNormRopeBackwardArgs& args, const RunContext& context);

}  // namespace octet
