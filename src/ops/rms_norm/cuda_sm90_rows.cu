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

// With a ring, four vectors of f32 need too many registers, so long rows of f32 are read without
// it.
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
  const std::int64_t blocks = grid.blocks;
  const bool has_dsum = args.dsum.data != nullptr;
  auto* partials = static_cast<float*>(context.workspace.data);
  if (blocks > 0) {
    bool whole = problem.cols % 8 == 0 &&
                 cuda::are_aligned16({args.dy, args.h, args.g, args.dsum, args.dx, args.dresidual});
    const std::size_t row_bytes =
        static_cast<std::size_t>(problem.cols * size_bytes(problem.dtype));
    const std::size_t stage_bytes = row_bytes * (has_dsum ? 3 : 2);
    const std::int64_t resident = ceil_div(blocks, grid.multiprocessors);
    const auto stages = std::min<std::int64_t>(
        static_cast<std::int64_t>(kSharedBytes / static_cast<std::size_t>(resident) / stage_bytes),
        problem.cols > 4096 ? 5 : 4);
    // The ring has to hold two batches: one in use and one in flight.
    bool wide = problem.cols > sm90::kRmsNormMaxThreads * 8 * 2;
    whole = whole && stages >= 2 * (wide ? sm90::kRmsNormBatch<4> : sm90::kRmsNormBatch<2>);
    wide = wide || !whole;
    RmsNormBackwardParams params{};
    params.operands[0] = cuda::matrix_of(args.dy);
    params.operands[1] = cuda::matrix_of(args.h);
    params.operands[2] = cuda::matrix_of(args.dsum);
    params.has_dsum = has_dsum;
    params.g = {args.g.data, problem.weight_dtype};
    params.rstd = static_cast<const float*>(args.rstd.data);
    params.dx = cuda::matrix_of(args.dx);
    params.dresidual = cuda::matrix_of(args.dresidual);
    params.partials = partials;
    params.rows = problem.rows;
    params.cols = static_cast<int>(problem.cols);
    params.row_threads_log2 = row_threads_log2(problem.cols, wide ? 4 : 2);
    params.stages = static_cast<int>(stages);
    params.one_plus_weight = problem.one_plus_weight;
    void* arguments[] = {&params};
    cuda::launch({reinterpret_cast<const void*>(backward_kernel(problem.dtype, whole, wide)),
                  "launch of cuda_sm90_rows", static_cast<unsigned>(blocks),
                  (1u << params.row_threads_log2) + (whole ? sm90::kProducerThreads : 0),
                  whole ? static_cast<std::size_t>(stages) * stage_bytes : 0,
                  static_cast<cudaStream_t>(context.stream)},
                 arguments);
  }
  cuda::add_partial_sums({partials, blocks, problem.cols, args.dg.data, problem.dg_dtype},
                         context.stream);
}

}  // namespace octet
