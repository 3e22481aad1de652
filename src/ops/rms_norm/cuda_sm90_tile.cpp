// Which problems the Hopper kernel of rms_norm that writes FP8 takes. Compiled with and without
// CUDA.
#include "ops/rms_norm/cuda_sm90_tile.hpp"

#include "ops/fp8_output/cuda_sm90_refusal.hpp"

namespace octet {
namespace {

// Each of 256 threads holds at most eight vectors of eight elements of a row.
constexpr std::int64_t kMostCols = 16384;

std::string refuse(const RmsNormProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_fp8_on_hopper(problem, problem.rows, problem.cols, machine);
  if (!refusal.empty()) return refusal;
  return problem.cols > kMostCols ? text("takes rows of at most ", kMostCols, " columns") : "";
}

}  // namespace

constinit const RmsNormForwardImplementation kRmsNormForwardCudaSm90Tile{
    "cuda_sm90_tile", refuse, [](const RmsNormProblem& problem, const Machine&) {
      // rstd, if the caller does not want it.
      const std::size_t workspace_bytes =
          problem.training ? 0 : static_cast<std::size_t>(problem.rows) * sizeof(float);
      return planned<RmsNormForwardArgs>(problem, "128x128", workspace_bytes,
                                         launch_sm90_rms_norm_tile);
    }};

}  // namespace octet
