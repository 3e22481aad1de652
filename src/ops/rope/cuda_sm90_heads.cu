// Launches the Hopper kernels of rope.
#include "ops/rope/cuda_sm90_call.cuh"
#include "ops/rope/problem.hpp"

namespace octet {

void launch_sm90_rope(const RopeProblem& problem, const RotateArgs& args,
                      const RunContext& context) {
  sm90::RotateCall call;
  call.heads = rotated_heads(problem);
  call.rotation = args.rotation;
  call.inverse = args.inverse;
  call.stream = context.stream;
  if (problem.q_heads > 0) call.sides.push_back({problem.q_heads, args.q, args.q_out});
  if (problem.k_heads > 0) call.sides.push_back({problem.k_heads, args.k, args.k_out});
  sm90::rotate<sm90::HeadNorm::none>(call);
}

}  // namespace octet
