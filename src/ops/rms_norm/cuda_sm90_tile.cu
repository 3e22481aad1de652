// Launches the Hopper kernel of rms_norm that writes FP8.
#include "ops/rms_norm/cuda_sm90_tile.cuh"

#include "core/workspace.hpp"
#include "device/launch.hpp"
#include "device/rows/matrices.hpp"
#include "device/scope.hpp"
#include "ops/fp8_output/cuda_sm90_copies.cuh"
#include "ops/rms_norm/cuda_sm90_tile.hpp"

#include <algorithm>

namespace octet {
namespace {

using sm90::Matrix;
using sm90::RmsNormTileParams;

// How far ahead root mean squares are found: some 8 MiB of rows are still in the L2 cache then.
// 16384x4096 bf16 on an H200: 2.56 TB/s with 4 bands, 2.71 with 8, 2.65 with 12.
constexpr std::int64_t kBytesAhead = 8 << 20;

Matrix matrix_of(const TensorView& view) {
  return {view.data, view.data == nullptr ? 0 : view.strides[0]};
}

using Kernel = void (*)(RmsNormTileParams);

template <Dtype kDtype>
Kernel kernel_of(Dtype format) {
  return format == Dtype::e5m2 ? sm90::rms_norm_tile_kernel<kDtype, true>
                               : sm90::rms_norm_tile_kernel<kDtype, false>;
}

}  // namespace

void launch_sm90_rms_norm_tile(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const auto stream = static_cast<cudaStream_t>(context.stream);
  const std::int64_t bands = ceil_div(problem.rows, kBlock);
  const std::int64_t tiles = ceil_div(problem.cols, kBlock);
  WorkspaceCarver workspace(context.workspace);
  RmsNormTileParams params{};
  const std::size_t counter_bytes = static_cast<std::size_t>(bands) * sizeof(unsigned);
  params.found = static_cast<unsigned*>(workspace.take(counter_bytes));
  params.norm.x = matrix_of(args.x);
  params.norm.residual = matrix_of(args.residual);
  params.norm.sum = matrix_of(args.sum);
  params.norm.g = {args.g.data, problem.weight};
  params.norm.rstd = static_cast<float*>(problem.training ? args.rstd.data : workspace.rest().data);
  params.norm.rows = problem.rows;
  params.norm.cols = static_cast<int>(problem.cols);
  params.norm.eps = problem.eps;
  params.norm.one_plus_weight = problem.one_plus_weight;
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  // A finder reads about as much as a tile: rows of which as many fit as a block has warps.
  params.block_rows_log2 = std::min(3, 7 - cuda::log2_up(tiles));
  params.finders = static_cast<unsigned>(kBlock >> params.block_rows_log2);
  const std::int64_t band_bytes = kBlock * problem.cols * size_bytes(problem.dtype);
  params.bands_ahead =
      static_cast<unsigned>(std::min(bands, std::max<std::int64_t>(1, kBytesAhead / band_bytes)));
  params.aligned =
      problem.cols % 8 == 0 && cuda::are_aligned16({args.x, args.residual, args.sum, args.g});

  cuda::check(cudaMemsetAsync(params.found, 0, counter_bytes, stream), "cudaMemsetAsync");
  const Kernel kernel = problem.dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(problem.fp8->format)
                                                     : kernel_of<Dtype::f16>(problem.fp8->format);
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
       static_cast<unsigned>(bands * (params.finders + tiles)), sm90::kQuantizeThreads, 0, stream},
      arguments);
}

}  // namespace octet
