// Which problems the Hopper kernels of gated_activation take. Compiled with and without CUDA.
#include "ops/gated_activation/problem.hpp"

#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"

namespace octet {
namespace {

constexpr std::int64_t kRun = 2048;  // columns of a block

constexpr const char* kNoGroups = "groups have no CUDA kernel yet";

std::string refuse_vectors(const GatedActivationProblem& problem, const Machine& machine) {
  if (problem.fp8) return "does not write FP8 output";
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.groups > 0) return kNoGroups;
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

std::string refuse_forward_tile(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_fp8_on_hopper(problem, problem.rows, problem.cols, machine);
  if (!refusal.empty()) return refusal;
  return problem.groups > 0 ? kNoGroups : refuse_activation(problem);
}

std::string refuse_backward_tile(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal =
      refuse_fp8_on_hopper(problem, problem.rows, 2 * problem.cols, machine);
  if (!refusal.empty()) return refusal;
  if (problem.groups > 0) return kNoGroups;
  if (problem.cols % kBlock != 0) {
    return text(
        "cols must be a multiple of 128, so that no block has columns of dgate and dup, "
        "the problem has ",
        problem.cols);
  }
  if (problem.row_weight) return "has no gradient of the row weight: unfused runs it";
  return refuse_activation(problem);
}

template <class Args>
Planned<Args> plan_vectors(const GatedActivationProblem& problem, const Machine&) {
  return planned<Args>(problem, "eights", 0, launch_sm90_gated_vectors);
}

template <class Args>
Planned<Args> plan_tile(const GatedActivationProblem& problem, const Machine&) {
  return planned<Args>(problem, "128x128", 0, launch_sm90_gated_tile);
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
