// Which problems the Hopper kernels of dequantize take. Compiled with and without CUDA.
#include "ops/dequantize/problem.hpp"

#include "core/checks.hpp"

#include <limits>

namespace octet {
namespace {

std::string refuse(const DequantizeProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();
  const std::int64_t across = ceil_div(problem.cols, kDequantizeTileCols);
  return ceil_div(problem.rows, kDequantizeTileRows) > kMostTiles / across
             ? "more than 2^31 - 1 tiles of 32x256"
             : "";
}

}  // namespace

constinit const DequantizeImplementation kDequantizeCudaSm90Vectors{
    "cuda_sm90_vectors", refuse, [](const DequantizeProblem& problem, const Machine&) {
      return planned<DequantizeArgs>(problem, "32x256", 0, launch_sm90_dequantize);
    }};

}  // namespace octet
