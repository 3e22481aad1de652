// Which problems the Hopper kernels of rms_norm_rope take. Compiled with and without CUDA.
#include "ops/rms_norm_rope/problem.hpp"

#include "core/workspace.hpp"

namespace octet {
namespace {

std::string refuse(const RmsNormRopeProblem& problem, const Machine& machine) {
  return refuse_heads_on_hopper(rotated_heads(problem), machine);
}

std::size_t backward_workspace(const RmsNormRopeProblem& problem, int multiprocessors) {
  const BackwardLayout layout = rms_norm_rope_backward_layout(problem, multiprocessors);
  const auto bytes_of = [&](int side, std::int64_t heads) {
    const std::int64_t values = layout.sides[side].blocks() * weight_length(problem, heads);
    return aligned_bytes(static_cast<std::size_t>(values) * sizeof(float));
  };
  return bytes_of(0, problem.q_heads) + bytes_of(1, problem.k_heads);
}

}  // namespace

BackwardLayout rms_norm_rope_backward_layout(const RmsNormRopeProblem& problem,
                                             int multiprocessors) {
  return backward_layout_of({problem.norm == NormScope::row,
                             static_cast<int>(size_bytes(problem.dtype)),
                             problem.head_dim,
                             {problem.q_heads, problem.k_heads},
                             problem.batch * problem.seq},
                            multiprocessors);
}

constinit const RmsNormRopeForwardImplementation kRmsNormRopeForwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine&) {
      return planned<RmsNormRopeForwardArgs>(problem, "units of eight pairs", 0,
                                             launch_sm90_rms_norm_rope);
    }};

constinit const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCudaSm90Heads{
    "cuda_sm90_heads", refuse, [](const RmsNormRopeProblem& problem, const Machine& machine) {
      const int multiprocessors = machine.multiprocessors;
      const BackwardLayout layout = rms_norm_rope_backward_layout(problem, multiprocessors);
      std::string configuration = text("rings of units, ", layout.threads, " threads");
      for (const BackwardHeads& side : layout.sides) {
        if (side.slots > 0) configuration += text(", ", side.blocks(), " blocks");
      }
      return Planned<RmsNormRopeBackwardArgs>{
          configuration, backward_workspace(problem, multiprocessors),
          [problem, multiprocessors](const RmsNormRopeBackwardArgs& args,
                                     const RunContext& context) {
            launch_sm90_rms_norm_rope(problem, multiprocessors, args, context);
          }};
    }};

}  // namespace octet
