// Launches the Hopper kernels of rms_norm: chooses the threads of a row and the stages of the ring.
#include "ops/rms_norm/cuda_sm90_backward.cuh"
#include "ops/rms_norm/cuda_sm90_forward.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/rms_norm/problem.hpp"

#include <algorithm>

namespace octet {
namespace {

using sm90::RmsNormBackwardParams;
using sm90::RmsNormForwardParams;
using sm90::Rows;

constexpr int kMinThreadsLog2 = 5;
constexpr int kMaxThreadsLog2 = 9;
static_assert(1 << kMaxThreadsLog2 == sm90::kRmsNormMaxThreads);
// Shared memory of a multiprocessor for rings; the rest is for the static variables of the blocks.
constexpr std::size_t kSharedBytes = 224 << 10;

int row_threads_log2(std::int64_t cols, int vectors) {
  return std::clamp(cuda::log2_up(ceil_div(cols, 8 * vectors)), kMinThreadsLog2, kMaxThreadsLog2);
}

// Rows in a ring of backward, at most.
constexpr std::int64_t kMostStages = 5;

using ForwardKernel = void (*)(RmsNormForwardParams);
using BackwardKernel = void (*)(RmsNormBackwardParams);

// A thread has four vectors, or eight from 4096 columns on. bf16 on an H200, 4096 and 8192 columns:
// 4.04 and 4.02 TB/s with eight vectors, 4.00 and 3.99 with four, 4.04 and 3.81 with two.
constexpr std::int64_t kWideCols = 4096;

template <Dtype kDtype>
ForwardKernel forward_kernel(bool whole, bool wide) {
  if (whole) {
    return wide ? sm90::rms_norm_forward_kernel<kDtype, Rows::whole, 8>
                : sm90::rms_norm_forward_kernel<kDtype, Rows::whole, 4>;
  }
  return wide ? sm90::rms_norm_forward_kernel<kDtype, Rows::ragged, 8>
              : sm90::rms_norm_forward_kernel<kDtype, Rows::ragged, 4>;
}

ForwardKernel forward_kernel(Dtype dtype, bool whole, bool wide) {
  switch (dtype) {
    case Dtype::bf16: return forward_kernel<Dtype::bf16>(whole, wide);
    case Dtype::f16: return forward_kernel<Dtype::f16>(whole, wide);
    default: return forward_kernel<Dtype::f32>(whole, wide);
  }
}

// With a ring, four vectors of f32 need too many registers, so long rows of f32 come as ragged ones.
template <Dtype kDtype>
BackwardKernel backward_kernel(bool whole, bool wide) {
  if (whole && !wide) return sm90::rms_norm_backward_kernel<kDtype, Rows::whole, 2>;
  if constexpr (kDtype != Dtype::f32) {
    if (whole) return sm90::rms_norm_backward_kernel<kDtype, Rows::whole, 4>;
  }
  return sm90::rms_norm_backward_kernel<kDtype, Rows::ragged, 4>;
}

BackwardKernel backward_kernel(Dtype dtype, bool whole, bool wide) {
  switch (dtype) {
    case Dtype::bf16: return backward_kernel<Dtype::bf16>(whole, wide);
    case Dtype::f16: return backward_kernel<Dtype::f16>(whole, wide);
    default: return backward_kernel<Dtype::f32>(whole, wide);
  }
}

}  // namespace

void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context) {
  if (problem.rows == 0) return;
  const cuda::DeviceScope scope(problem.device.index);
  const bool whole = problem.cols % 8 == 0 &&
                     cuda::are_aligned16({args.x, args.residual, args.g, args.y, args.sum});
  const bool wide = problem.cols > sm90::kRmsNormMaxThreads * 8 * 4 ||
                    (whole && size_bytes(problem.dtype) == 2 && problem.cols >= kWideCols);
  RmsNormForwardParams params{};
  params.x = cuda::matrix_of(args.x);
  params.residual = cuda::matrix_of(args.residual);
  params.g = {args.g.data, problem.weight_dtype};
  params.y = cuda::matrix_of(args.y);
  params.sum = cuda::matrix_of(args.sum);
  params.rstd = static_cast<float*>(args.rstd.data);
  params.rows = static_cast<unsigned>(problem.rows);
  params.cols = static_cast<int>(problem.cols);
  params.row_threads_log2 = row_threads_log2(problem.cols, wide ? 8 : 4);
  params.eps = problem.eps;
  params.one_plus_weight = problem.one_plus_weight;
  // A block has four rows where a row has one warp, else one.
  const int rows_log2 = params.row_threads_log2 == kMinThreadsLog2 ? 2 : 0;
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(forward_kernel(problem.dtype, whole, wide)),
       "launch of cuda_sm90_rows",
       static_cast<unsigned>(ceil_div(problem.rows, std::int64_t{1} << rows_log2)),
       1u << (params.row_threads_log2 + rows_log2), 0, static_cast<cudaStream_t>(context.stream)},
      arguments);
}

void launch_sm90_rms_norm_rows(const RmsNormProblem& problem, const RmsNormBackwardGrid& grid,
                               const RmsNormBackwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  std::int64_t blocks = grid.blocks;
  const bool has_dsum = args.dsum.data != nullptr;
  auto* partials = static_cast<float*>(context.workspace.data);
  if (blocks > 0) {
    bool whole = problem.cols % 8 == 0 &&
                 cuda::are_aligned16({args.dy, args.h, args.g, args.dsum, args.dx, args.dresidual});
    const auto row_bytes = static_cast<std::size_t>(problem.cols * size_bytes(problem.dtype));
    // Where the rings of all planned blocks do not fit with dsum, fewer blocks are launched, and where
    // even one does not, dsum is left out of it.
    bool dsum_in_ring = has_dsum;
    std::int64_t resident = ceil_div(blocks, grid.multiprocessors);
    const auto stages_of_ring = [&] {
      const std::size_t bytes = kSharedBytes / static_cast<std::size_t>(resident);
      return std::min<std::int64_t>(
          static_cast<std::int64_t>(bytes / (row_bytes * (dsum_in_ring ? 3 : 2))), kMostStages);
    };
    if (stages_of_ring() < sm90::kRmsNormLeastStages && resident > 1) {
      resident = 1;
      blocks = rms_norm_backward_blocks(problem.rows, grid.multiprocessors);
    }
    if (stages_of_ring() < sm90::kRmsNormLeastStages) dsum_in_ring = false;
    const std::int64_t stages = stages_of_ring();
    const std::size_t ring_bytes =
        static_cast<std::size_t>(stages) * row_bytes * (dsum_in_ring ? 3 : 2);
    const bool long_rows = rms_norm_backward_is_wide(problem);
    whole = whole && stages >= sm90::kRmsNormLeastStages &&
            !(long_rows && size_bytes(problem.dtype) == 4);
    const bool wide = !whole || long_rows;
    RmsNormBackwardParams params{};
    params.operands[0] = cuda::matrix_of(args.dy);
    params.operands[1] = cuda::matrix_of(args.h);
    params.operands[2] = cuda::matrix_of(args.dsum);
    params.has_dsum = has_dsum;
    params.dsum_in_ring = dsum_in_ring;
    params.g = {args.g.data, problem.weight_dtype};
    params.rstd = static_cast<const float*>(args.rstd.data);
    params.dx = cuda::matrix_of(args.dx);
    params.dresidual = cuda::matrix_of(args.dresidual);
    params.partials = partials;
    params.rows = static_cast<unsigned>(problem.rows);
    params.cols = static_cast<int>(problem.cols);
    params.stages = static_cast<int>(stages);
    params.one_plus_weight = problem.one_plus_weight;
    void* arguments[] = {&params};
    cuda::launch({reinterpret_cast<const void*>(backward_kernel(problem.dtype, whole, wide)),
                  "launch of cuda_sm90_rows", static_cast<unsigned>(blocks),
                  static_cast<unsigned>(32 * rms_norm_backward_warps(problem.cols, wide ? 4 : 2)),
                  whole ? ring_bytes : 0, static_cast<cudaStream_t>(context.stream)},
                 arguments);
  }
  const cuda::PartialSums sums{partials, blocks, problem.cols, args.dg.data, problem.dg_dtype};
  cuda::add_partial_sums({&sums, 1}, context.stream);
}

}  // namespace octet
