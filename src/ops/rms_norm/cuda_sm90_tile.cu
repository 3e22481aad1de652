// Launches the Hopper kernel of rms_norm that writes FP8.
#include "ops/rms_norm/cuda_sm90_tile.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/rms_norm/problem.hpp"

#include <algorithm>

namespace octet {
namespace {

using sm90::RmsNormTileParams;

// How far the rstd blocks run ahead of the tile blocks, in bytes of x, which have to stay in the L2
// cache. 16384x4096 bf16 on an H200: 3.14 TB/s with 6 MiB, 3.22 with 8, 3.20 with 10, 3.10 with 12.
constexpr std::int64_t kBytesAhead = 8 << 20;

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
  RmsNormTileParams params{};
  params.norm.x = cuda::matrix_of(args.x);
  params.norm.residual = cuda::matrix_of(args.residual);
  params.norm.sum = cuda::matrix_of(args.sum);
  params.norm.g = {args.g.data, problem.weight_dtype};
  params.norm.rstd =
      static_cast<float*>(problem.training ? args.rstd.data : context.workspace.data);
  params.norm.rows = static_cast<unsigned>(problem.rows);
  params.norm.cols = static_cast<int>(problem.cols);
  params.norm.eps = problem.eps;
  params.norm.one_plus_weight = problem.one_plus_weight;
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  // An rstd block reads about as many bytes as a tile block, and has at most one row per warp.
  params.block_rows_log2 = std::min(3, 7 - cuda::log2_up(tiles));
  const std::int64_t band_bytes = kBlock * problem.cols * size_bytes(problem.dtype);
  params.blocks = {
      static_cast<unsigned>(kBlock >> params.block_rows_log2), static_cast<unsigned>(tiles),
      static_cast<unsigned>(bands),
      static_cast<unsigned>(std::min(bands, std::max<std::int64_t>(1, kBytesAhead / band_bytes)))};
  params.aligned =
      problem.cols % 8 == 0 && cuda::are_aligned16({args.x, args.residual, args.sum, args.g});
  params.full_rstd_blocks = params.aligned && args.residual.data == nullptr &&
                            problem.cols << params.block_rows_log2 ==
                                sm90::kRstdVectors * sm90::kEight * sm90::kQuantizeThreads;

  static_assert(sm90::kNotReady == 0xFFFFFFFF, "the memset below writes it byte by byte");
  cuda::check(cudaMemsetAsync(params.norm.rstd, 0xFF,
                              static_cast<std::size_t>(problem.rows) * sizeof(float), stream),
              "cudaMemsetAsync");
  const Kernel kernel = problem.dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(problem.fp8->format)
                                                     : kernel_of<Dtype::f16>(problem.fp8->format);
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
                params.blocks.count(), sm90::kQuantizeThreads, 0, stream},
               arguments);
}

}  // namespace octet
