// Which problems the Hopper kernels of gated_activation take. Compiled with and without CUDA.
#include "ops/gated_activation/problem.hpp"

#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/experts/token_tile.hpp"

#include <type_traits>

namespace octet {
namespace {

constexpr std::int64_t kRun = 2048;  // columns of a block

std::string refuse_vectors(const GatedActivationProblem& problem, const Machine& machine) {
  if (problem.fp8) return "does not write FP8 output";
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  const std::int64_t runs = ceil_div(problem.cols, kRun);
  if (problem.cols >= std::int64_t{1} << 30 || problem.rows >= (std::int64_t{1} << 31) / runs) {
    return "more than 2^31 runs of 2048 columns";
  }
  return "";
}

std::string refuse_activation(const GatedActivationProblem& problem) {
  return problem.activation == GateActivation::gelu_erf
             ? "gelu_erf leaves no registers for a tile: unfused runs it"
             : "";
}

// `cols`: those of the output that is cast.
std::string refuse_tile(const GatedActivationProblem& problem, std::int64_t cols,
                        const Machine& machine) {
  const std::int64_t rows = problem.groups > 0
                                ? kBlock * max_token_tiles({problem.groups, problem.rows}, true)
                                : problem.rows;
  return refuse_fp8_on_hopper(problem, rows, cols, machine);
}

std::string refuse_forward_tile(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_tile(problem, problem.cols, machine);
  return refusal.empty() ? refuse_activation(problem) : refusal;
}

std::string refuse_backward_tile(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_tile(problem, 2 * problem.cols, machine);
  if (!refusal.empty()) return refusal;
  if (problem.cols % kBlock != 0) {
    return text(
        "cols must be a multiple of 128, so that no block has columns of dgate and dup, "
        "the problem has ",
        problem.cols);
  }
  if (problem.row_weight && problem.groups == 0) {
    return "has no gradient of the row weight: unfused runs it";
  }
  return refuse_activation(problem);
}

template <class Args>
Planned<Args> plan_vectors(const GatedActivationProblem& problem, const Machine&) {
  if (problem.groups == 0) return planned<Args>(problem, "eights", 0, launch_sm90_gated_vectors);
  return planned<Args>(problem, "eights", 0, launch_sm90_gated_group_rows);
}

// Of groups, a tile leaves its part of the gradient of each row weight in the workspace.
std::size_t workspace_bytes(const GatedActivationProblem& problem) {
  if (problem.groups == 0 || !problem.row_weight) return 0;
  return sizeof(float) * static_cast<std::size_t>(problem.cols / kBlock * problem.rows);
}

template <class Args>
Planned<Args> plan_tile(const GatedActivationProblem& problem, const Machine&) {
  if (problem.groups == 0) return planned<Args>(problem, "128x128", 0, launch_sm90_gated_tile);
  constexpr bool kBackward = std::is_same_v<Args, GatedActivationBackwardArgs>;
  return planned<Args>(problem, "128x128", kBackward ? workspace_bytes(problem) : 0,
                       launch_sm90_gated_groups);
}

}  // namespace

constinit const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90Vectors{
    "cuda_sm90_vectors", refuse_vectors, plan_vectors<GatedActivationForwardArgs>};
constinit const GatedActivationBackwardImplementation kGatedActivationBackwardCudaSm90Vectors{
    "cuda_sm90_vectors", refuse_vectors, plan_vectors<GatedActivationBackwardArgs>};
constinit const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90Tile{
    "cuda_sm90_tile", refuse_forward_tile, plan_tile<GatedActivationForwardArgs>};
constinit const GatedActivationBackwardImplementation kGatedActivationBackwardCudaSm90Tile{
    "cuda_sm90_tile", refuse_backward_tile, plan_tile<GatedActivationBackwardArgs>};

}  // namespace octet
