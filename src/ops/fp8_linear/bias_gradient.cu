// dbias on Hopper: each block adds the rows of one run, eight columns per thread, and writes a line of
// partial sums; add_partial_sums adds the lines. No atomics. Bound by reading dy once: eight rows are in
// flight per thread.
#include "ops/fp8_linear/bias_gradient.hpp"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/eight.cuh"
#include "device/rows/launch.hpp"

namespace octet {
namespace {

using sm90::Eight;
using sm90::kEight;
using sm90::Matrix;
using sm90::Rows;

static_assert(kBiasGradientLines == cuda::kPartialSumWarps, "the CPU adds in the same order");
constexpr int kThreads = 128;
constexpr int kBlockCols = kThreads * kEight;
constexpr int kRowsInFlight = 8;

struct Params {
  Matrix dy;  // [rows, cols]
  Dtype dtype;
  bool whole;  // every row of dy can be read in vectors
  std::int64_t rows;
  int cols;
  int column_blocks;
  float* partials;  // [runs, cols]
};

// The sum of a thread's columns over rows [first, end).
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ void add_run(const Params& params, std::int64_t first, std::int64_t end,
                                        int col, float (&sums)[kEight]) {
  std::int64_t row = first;
#pragma unroll 1
  for (; row + kRowsInFlight <= end; row += kRowsInFlight) {
    Eight<kDtype> loaded[kRowsInFlight];
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      loaded[r] = sm90::load_row<kDtype, kRows>(params.dy, row + r, col, params.cols);
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
#pragma unroll
      for (int i = 0; i < kEight; ++i) sums[i] = __fadd_rn(sums[i], loaded[r][i]);
    }
  }
#pragma unroll 1
  for (; row < end; ++row) {
    const Eight<kDtype> loaded = sm90::load_row<kDtype, kRows>(params.dy, row, col, params.cols);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sums[i] = __fadd_rn(sums[i], loaded[i]);
  }
}

template <Dtype kDtype>
__device__ __forceinline__ void add_run(const Params& params, std::int64_t first, std::int64_t end,
                                        int col, float (&sums)[kEight]) {
  if (params.whole) {
    add_run<kDtype, Rows::whole>(params, first, end, col, sums);
  } else {
    add_run<kDtype, Rows::ragged>(params, first, end, col, sums);
  }
}

__global__ __launch_bounds__(kThreads) void bias_gradient_kernel(
    const __grid_constant__ Params params) {
  const int run = blockIdx.x / params.column_blocks;
  const int col = blockIdx.x % params.column_blocks * kBlockCols + threadIdx.x * kEight;
  const std::int64_t first = run * kBiasGradientRunRows;
  const std::int64_t end = min(first + kBiasGradientRunRows, params.rows);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (col >= params.cols) return;
  float sums[kEight] = {};
  if (params.dtype == Dtype::bf16) {
    add_run<Dtype::bf16>(params, first, end, col, sums);
  } else if (params.dtype == Dtype::f16) {
    add_run<Dtype::f16>(params, first, end, col, sums);
  } else {
    add_run<Dtype::f32>(params, first, end, col, sums);
  }
  float* to = params.partials + std::int64_t{run} * params.cols + col;
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    if (col + i < params.cols) to[i] = sums[i];
  }
}

}  // namespace

void launch_bias_gradient(const BiasGradientArgs& args, void* stream) {
  const cuda::DeviceScope scope(args.dy.device.index);
  const std::int64_t runs = bias_gradient_runs(args.dy.rows());
  const std::int64_t column_blocks = ceil_div(args.dy.cols(), kBlockCols);
  Params params{cuda::matrix_of(args.dy),
                args.dy.dtype,
                cuda::is_aligned16(args.dy) && args.dy.cols() % kEight == 0,
                args.dy.rows(),
                static_cast<int>(args.dy.cols()),
                static_cast<int>(column_blocks),
                args.partials};
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(bias_gradient_kernel), "launch of bias_gradient",
       static_cast<unsigned>(runs * column_blocks), kThreads, 0, static_cast<cudaStream_t>(stream)},
      arguments);
  const cuda::PartialSums sums{args.partials,    runs,           args.dy.cols(), args.dbias.data,
                               args.dbias.dtype, args.accumulate};
  cuda::add_partial_sums({&sums, 1}, stream);
}

}  // namespace octet
