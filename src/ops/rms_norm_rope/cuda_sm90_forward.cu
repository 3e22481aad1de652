// Launches the Hopper kernels of rms_norm_rope forward, which are those of rope with a norm.
#include "ops/rms_norm_rope/problem.hpp"

#include "ops/rope/cuda_sm90_call.cuh"

namespace octet {

using sm90::HeadNorm;

void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem,
                               const RmsNormRopeForwardArgs& args, const RunContext& context) {
  sm90::RotateCall call;
  call.heads = rotated_heads(problem);
  call.rotation = args.rotation;
  call.eps = problem.eps;
  call.one_plus_weight = problem.one_plus_weight;
  call.stream = context.stream;
  for (const ForwardSide& side : sides_of(problem, args)) {
    if (side.heads == 0) continue;
    call.sides.push_back(
        {side.heads, side.x, side.out, side.g, problem.training ? side.rstd : TensorView()});
  }
  if (problem.norm == NormScope::row) {
    sm90::rotate<HeadNorm::row>(call);
  } else {
    sm90::rotate<HeadNorm::head>(call);
  }
}

}  // namespace octet
