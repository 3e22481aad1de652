// Which problems the Hopper kernels of rms_norm take. Compiled with and without CUDA.
#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/rms_norm/problem.hpp"

#include <algorithm>

namespace octet {
namespace {

std::string refuse_size(const RmsNormProblem& problem, const Machine& machine, std::int64_t most) {
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.cols > most) return text("rows of more than ", most, " columns have no CUDA kernel");
  return problem.rows >= std::int64_t{1} << 31 ? "2^31 rows or more" : "";
}

std::string refuse_forward(const RmsNormProblem& problem, const Machine& machine) {
  if (problem.fp8) return "does not write FP8 output";
  return refuse_size(problem, machine, kRmsNormRowsMostForward);
}

std::string refuse_backward(const RmsNormProblem& problem, const Machine& machine) {
  return refuse_size(problem, machine, kRmsNormRowsMostBackward);
}

// Each of 256 threads holds at most eight vectors of eight elements of a row.
constexpr std::int64_t kMostCols = 16384;

std::string refuse_tile(const RmsNormProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_fp8_on_hopper(problem, problem.rows, problem.cols, machine);
  if (!refusal.empty()) return refusal;
  return problem.cols > kMostCols ? text("takes rows of at most ", kMostCols, " columns") : "";
}

}  // namespace

// Two blocks fit on a multiprocessor: up to 5120 columns with 10 warps of two vectors, up to 8192 with
// 8 warps of four. Four vectors of f32 need too many registers.
bool rms_norm_backward_is_wide(const RmsNormProblem& problem) {
  return problem.cols > (size_bytes(problem.dtype) == 2 ? 5120 : 8192);
}

std::int64_t rms_norm_backward_blocks(std::int64_t rows, std::int64_t most) {
  return rows <= most ? rows : ceil_div(rows, ceil_div(rows, most));
}

namespace {

// Two blocks keep a multiprocessor busy when rows are long: one is at a barrier while the other
// works. Rows of more than 16 KiB leave room for the ring of one block only. Short rows get more
// blocks of fewer threads.
std::int64_t blocks_per_multiprocessor(const RmsNormProblem& problem) {
  if (problem.cols * size_bytes(problem.dtype) > 16384) return 1;
  return std::clamp<std::int64_t>(8192 / problem.cols, 2, 16);
}

RmsNormBackwardGrid backward_grid(const RmsNormProblem& problem, int multiprocessors) {
  return {
      rms_norm_backward_blocks(problem.rows, blocks_per_multiprocessor(problem) * multiprocessors),
      multiprocessors};
}

}  // namespace

constinit const RmsNormForwardImplementation kRmsNormForwardCudaSm90Rows{
    "cuda_sm90_rows", refuse_forward, [](const RmsNormProblem& problem, const Machine&) {
      return planned<RmsNormForwardArgs>(problem, "row in registers", 0, launch_sm90_rms_norm_rows);
    }};

constinit const RmsNormBackwardImplementation kRmsNormBackwardCudaSm90Rows{
    "cuda_sm90_rows", refuse_backward, [](const RmsNormProblem& problem, const Machine& machine) {
      const RmsNormBackwardGrid grid = backward_grid(problem, machine.multiprocessors);
      const auto partial_sums = static_cast<std::size_t>(grid.blocks * problem.cols);
      return Planned<RmsNormBackwardArgs>{
          text("ring of rows, ", grid.blocks, " blocks"), partial_sums * sizeof(float),
          [problem, grid](const RmsNormBackwardArgs& args, const RunContext& context) {
            launch_sm90_rms_norm_rows(problem, grid, args, context);
          }};
    }};

constinit const RmsNormForwardImplementation kRmsNormForwardCudaSm90Tile{
    "cuda_sm90_tile", refuse_tile, [](const RmsNormProblem& problem, const Machine&) {
      // rstd, if the caller does not want it.
      const std::size_t workspace_bytes =
          problem.training ? 0 : static_cast<std::size_t>(problem.rows) * sizeof(float);
      return planned<RmsNormForwardArgs>(problem, "128x128", workspace_bytes,
                                         launch_sm90_rms_norm_tile);
    }};

}  // namespace octet
