// The checked problem of rms_norm, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/quantize.hpp>
#include <octet/ops/rms_norm.hpp>

#include <algorithm>
#include <span>

namespace octet {

using RmsNormForwardImplementation = Implementation<RmsNormProblem, RmsNormForwardArgs>;
using RmsNormBackwardImplementation = Implementation<RmsNormProblem, RmsNormBackwardArgs>;

extern const RmsNormForwardImplementation kRmsNormForwardCudaSm90Tile;
extern const RmsNormForwardImplementation kRmsNormForwardCudaSm90RowCast;
extern const RmsNormForwardImplementation kRmsNormForwardCudaSm90Rows;
extern const RmsNormForwardImplementation kRmsNormForwardCpuSimd;
extern const RmsNormForwardImplementation kRmsNormForwardUnfused;
extern const RmsNormForwardImplementation kRmsNormForwardCpuReference;
extern const RmsNormBackwardImplementation kRmsNormBackwardCudaSm90Rows;
extern const RmsNormBackwardImplementation kRmsNormBackwardCpuSimd;
extern const RmsNormBackwardImplementation kRmsNormBackwardCpuReference;

// In the order they are tried.
std::span<const RmsNormForwardImplementation> rms_norm_forward_implementations();
std::span<const RmsNormBackwardImplementation> rms_norm_backward_implementations();

// What is quantised with fp8.
QuantizeProblem forward_cast(const RmsNormProblem& problem);

void check(const RmsNormProblem& problem);
// Checks the tensors and the workspace of a call. Returns the arguments without the views that the
// problem ignores.
RmsNormForwardArgs check(const RmsNormProblem& problem, RmsNormForwardArgs args,
                         std::size_t workspace_bytes, const Workspace& workspace);
void check(const RmsNormProblem& problem, const RmsNormBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// dg on the CPU: the rows of each run are added in order, then the runs. The number of runs depends
// only on the problem, so every number of threads gives the same bits.
inline std::int64_t gradient_runs(const RmsNormProblem& problem) {
  return std::min<std::int64_t>(problem.rows, 64);
}
inline std::int64_t gradient_run_begin(const RmsNormProblem& problem, std::int64_t run) {
  return problem.rows * run / gradient_runs(problem);
}
// dg from the sums of the runs, `pitch` floats apart.
void add_gradient_runs(const RmsNormProblem& problem, const float* partial_sums, std::int64_t pitch,
                       const TensorView& dg, int threads);

// More columns do not fit the registers of a block of the Hopper kernels that keep a row there.
inline constexpr std::int64_t kRmsNormRowsMostForward = 32768;
inline constexpr std::int64_t kRmsNormRowsMostBackward = 16384;

// The grid of their backward. Each block writes a line of partial sums.
struct RmsNormBackwardGrid {
  std::int64_t blocks;
  int multiprocessors;
};
// At most `most` blocks, which get the same number of rows, or one less.
std::int64_t rms_norm_backward_blocks(std::int64_t rows, std::int64_t most);
// Whether a thread has four vectors of eight elements of a row, else it has two.
bool rms_norm_backward_is_wide(const RmsNormProblem& problem);
// A warp has 256 neighbouring elements of each of its vectors.
constexpr std::int64_t rms_norm_backward_warps(std::int64_t cols, int vectors) {
  return (cols + 256 * vectors - 1) / (256 * vectors);
}

// The launchers of the Hopper kernels; the one called tile writes FP8. Arguments are checked
// already. Throw Error if CUDA reports one.
void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context);
void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormBackwardGrid& grid,
                               const RmsNormBackwardArgs& args, const RunContext& context);
void launch_sm90_rms_norm_tile(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context);

}  // namespace octet
