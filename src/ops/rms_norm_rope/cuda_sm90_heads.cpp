// Which problems the Hopper kernels of rms_norm_rope take. Compiled with and without CUDA.
#include "ops/rms_norm_rope/problem.hpp"

#include "core/workspace.hpp"

#include <algorithm>

namespace octet {
namespace {

std::string refuse(const RmsNormRopeProblem& problem, const Machine& machine) {
  return refuse_heads_on_hopper(rotated_heads(problem), machine);
}

std::size_t backward_workspace(const RmsNormRopeProblem& problem, int multiprocessors) {
  std::size_t bytes = 0;
  for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
    if (heads == 0) continue;
    const std::int64_t blocks = rms_norm_rope_backward_blocks(problem, heads, multiprocessors);
    bytes += aligned_bytes(static_cast<std::size_t>(blocks * weight_length(problem, heads)) *
                           sizeof(float));
  }
  return bytes;
}

}  // namespace

// Two blocks per multiprocessor, dealt to q and k by their heads, so that both end together.
std::int64_t rms_norm_rope_backward_blocks(const RmsNormRopeProblem& problem, std::int64_t heads,
                                           int multiprocessors) {
  const std::int64_t share =
      2 * std::int64_t{multiprocessors} * heads / (problem.q_heads + problem.k_heads);
  return std::min(problem.batch * problem.seq, std::max<std::int64_t>(share, 1));
}

constinit const RmsNormRopeForwardImplementation kRmsNormRopeForwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine&) {
      return planned<RmsNormRopeForwardArgs>(problem, "units of eight pairs", 0,
                                             launch_sm90_rms_norm_rope);
    }};

constinit const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine& machine) {
      const int multiprocessors = machine.multiprocessors;
      std::string configuration = "ring of units";
      for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
        if (heads == 0) continue;
        configuration +=
            text(", ", rms_norm_rope_backward_blocks(problem, heads, multiprocessors), " blocks");
      }
      return Planned<RmsNormRopeBackwardArgs>{
          configuration, backward_workspace(problem, multiprocessors),
          [problem, multiprocessors](const RmsNormRopeBackwardArgs& args,
                                     const RunContext& context) {
            launch_sm90_rms_norm_rope(problem, multiprocessors, args, context);
          }};
    }};

}  // namespace octet
