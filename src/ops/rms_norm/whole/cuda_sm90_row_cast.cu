// rms_norm to FP8 on Hopper with a scale per row, in one pass: a block of threads reads a row, norms
// it in registers, finds its largest magnitude and casts it. y is rounded to 16 bits before the cast,
// but never written. Memory-bound.
#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/whole/cuda_sm90_row_cast.cuh"
#include "ops/rms_norm/cuda_sm90_forward.cuh"
#include "ops/rms_norm/whole/row_cast.hpp"

namespace octet {
namespace sm90 {

// Blocks of 256 threads per multiprocessor that registers allow: 80 per thread, or 48.
template <int kVectors>
inline constexpr int kNormedRowBlocks = kVectors == 8 ? 3 : 5;

struct RmsNormRowCastParams {
  RmsNormForwardParams norm;  // y and row_threads_log2 are not used
  QuantizeParams copies;
  bool aligned;      // rows and g start on 16-byte boundaries, cols is a multiple of eight
  bool plain_gains;  // aligned, and w = g in the dtype of x
  bool e5m2;
};

// One vector after the other: elements of all of them in flight spill 36 to 96 bytes.
template <Dtype kDtype, int kVectors>
__device__ __forceinline__ void load_ragged_h(const RmsNormForwardParams& norm, unsigned row,
                                              RowThreads threads, Eight<kDtype> (&h)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    Eight<kDtype> one[1] = {};
    if (threads.col(0) < norm.cols) load_h<Rows::ragged>(norm, row, norm.cols, threads, one);
    h[v] = one[0];
    threads.index += threads.count;
  }
}

// y over h, where weights are loaded as they are: up to four vectors are in flight at once.
template <Dtype kDtype, int kVectors>
__device__ __forceinline__ void norm_by_plain_gains(const RmsNormForwardParams& norm,
                                                    const RowThreads& threads, float rstd,
                                                    Eight<kDtype> (&h)[kVectors]) {
  const RowVectors<kDtype, Rows::whole> gains({const_cast<void*>(norm.g.data), 0}, 0, norm.cols,
                                              threads);
  constexpr int kGroup = kVectors < 4 ? kVectors : 4;
#pragma unroll
  for (int first = 0; first < kVectors; first += kGroup) {
    Eight<kDtype> g[kGroup];
#pragma unroll
    for (int v = 0; v < kGroup; ++v) g[v] = gains.load(first + v);
#pragma unroll
    for (int v = 0; v < kGroup; ++v) {
      float w[kEight];
#pragma unroll
      for (int i = 0; i < kEight; ++i) w[i] = g[v][i];
      h[first + v] = normed(h[first + v], rstd, w);
    }
  }
}

template <Rows kRows, Dtype kDtype, int kVectors>
__device__ __forceinline__ void norm_by_gains(const RmsNormForwardParams& norm,
                                              const RowThreads& threads, float rstd,
                                              Eight<kDtype> (&h)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int col = threads.col(v);
    if (col >= norm.cols) continue;
    float w[kEight];
    load_gains<kRows>(norm.g, norm.one_plus_weight, col, norm.cols, w);
    h[v] = normed(h[v], rstd, w);
  }
}

template <Dtype kDtype, int kVectors>
__global__
__launch_bounds__(kNormedRowThreads, kNormedRowBlocks<kVectors>) void rms_norm_row_cast_kernel(
    const __grid_constant__ RmsNormRowCastParams params) {
  constexpr int kWarps = kNormedRowThreads / 32;
  __shared__ float sums[kVectors * kWarps];
  __shared__ RowMaxima<kWarps> maxima;
  const RmsNormForwardParams& norm = params.norm;
  const auto threads = RowThreads::of_block(static_cast<int>(blockDim.x));
  const unsigned row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Read
  RowInRegisters<kDtype, kVectors> x;
  if (params.aligned) {
    load_h<Rows::whole>(norm, row, norm.cols, threads, x.vectors);
  } else {
    load_ragged_h(norm, row, threads, x.vectors);
  }

  // Root mean square
  float vector_sums[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) vector_sums[v] = sum_of_squares(x.vectors[v]);
  store_warp_sums<kVectors>(vector_sums, threads, sums);
  __syncthreads();
  const float rstd = rstd_of(sum_of_warps(sums, threads.warps() * kVectors), norm.cols, norm.eps);
  if (norm.rstd != nullptr && threads.index == 0) norm.rstd[row] = rstd;

  // Norm
  if (params.plain_gains) {
    norm_by_plain_gains(norm, threads, rstd, x.vectors);
  } else if (params.aligned) {
    norm_by_gains<Rows::whole>(norm, threads, rstd, x.vectors);
  } else {
    norm_by_gains<Rows::ragged>(norm, threads, rstd, x.vectors);
  }

  // Cast
  const RowScale scale = write_row_scale(maxima, params.copies, row, threads.count, x);
  if (params.e5m2) {
    write_row_codes<true>(params.copies, row, threads.count, scale, x);
  } else {
    write_row_codes<false>(params.copies, row, threads.count, scale, x);
  }
}

}  // namespace sm90

namespace {

using sm90::RmsNormRowCastParams;

using Kernel = void (*)(RmsNormRowCastParams);

template <Dtype kDtype>
Kernel kernel_of(int vectors) {
  switch (vectors) {
    case 2: return sm90::rms_norm_row_cast_kernel<kDtype, 2>;
    case 4: return sm90::rms_norm_row_cast_kernel<kDtype, 4>;
    default: return sm90::rms_norm_row_cast_kernel<kDtype, 8>;
  }
}

}  // namespace

void launch_sm90_rms_norm_row_cast(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                                   const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const RowThreads row = normed_row_threads(problem.cols);
  RmsNormRowCastParams params{};
  params.norm.x = cuda::matrix_of(args.x);
  params.norm.residual = cuda::matrix_of(args.residual);
  params.norm.sum = cuda::matrix_of(args.sum);
  params.norm.g = {args.g.data, problem.weight_dtype};
  params.norm.rstd = static_cast<float*>(args.rstd.data);
  params.norm.rows = static_cast<unsigned>(problem.rows);
  params.norm.cols = static_cast<int>(problem.cols);
  params.norm.eps = problem.eps;
  params.norm.one_plus_weight = problem.one_plus_weight;
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  params.aligned =
      problem.cols % 8 == 0 && cuda::are_aligned16({args.x, args.residual, args.sum, args.g});
  params.plain_gains =
      params.aligned && problem.weight_dtype == problem.dtype && !problem.one_plus_weight;
  params.e5m2 = problem.fp8->format == Dtype::e5m2;
  void* arguments[] = {&params};
  const Kernel kernel = problem.dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(row.vectors)
                                                     : kernel_of<Dtype::f16>(row.vectors);
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_row_cast",
                static_cast<unsigned>(problem.rows), static_cast<unsigned>(row.count), 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
