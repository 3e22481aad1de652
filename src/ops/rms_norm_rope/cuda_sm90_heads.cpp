// Which problems the Hopper kernels of rms_norm_rope take. Compiled with and without CUDA.
#include "ops/rms_norm_rope/problem.hpp"

#include "core/workspace.hpp"

#include <algorithm>

namespace octet {
namespace {

std::string refuse(const RmsNormRopeProblem& problem, const Machine& machine) {
  return refuse_heads_on_hopper(rotated_heads(problem), machine);
}

std::size_t backward_workspace(const RmsNormRopeProblem& problem, std::int64_t blocks) {
  std::size_t bytes = 0;
  for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
    if (heads == 0) continue;
    bytes += aligned_bytes(static_cast<std::size_t>(blocks * weight_length(problem, heads)) *
                           sizeof(float));
  }
  return bytes;
}

}  // namespace

std::int64_t rms_norm_rope_backward_blocks(const RmsNormRopeProblem& problem, int multiprocessors) {
  return std::min<std::int64_t>(problem.batch * problem.seq, 4 * multiprocessors);
}

constinit const RmsNormRopeForwardImplementation kRmsNormRopeForwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine&) {
      return planned<RmsNormRopeForwardArgs>(problem, "units of eight pairs", 0,
                                             launch_sm90_rms_norm_rope);
    }};

constinit const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine& machine) {
      const std::int64_t blocks = rms_norm_rope_backward_blocks(problem, machine.multiprocessors);
      return Planned<RmsNormRopeBackwardArgs>{
          text("units of eight pairs, ", blocks, " blocks"), backward_workspace(problem, blocks),
          [problem, blocks](const RmsNormRopeBackwardArgs& args, const RunContext& context) {
            launch_sm90_rms_norm_rope(problem, blocks, args, context);
          }};
    }};

}  // namespace octet
