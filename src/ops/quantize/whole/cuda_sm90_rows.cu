// A row copy with a scale per row, from one read: a block of threads holds a row in registers, finds
// its largest magnitude and casts it. Memory-bound.
#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/launches.hpp"
#include "ops/quantize/whole/cuda_sm90_row_cast.cuh"
#include "ops/quantize/whole/lines.hpp"

namespace octet {
namespace sm90 {

template <Dtype kDtype, int kVectors>
struct InputRow : RowInRegisters<kDtype, kVectors> {
  using RowInRegisters<kDtype, kVectors>::vectors;

  __device__ __forceinline__ void load(const QuantizeParams& params, std::int64_t row) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t col = InputRow::col_of(v, kRowThreads);
      vectors[v] = {};
      if (col >= params.cols) continue;
      const char* from = element_at<kDtype>(params.input, row, static_cast<int>(col));
      const std::int64_t left = params.cols - col;
      vectors[v] =
          params.aligned && left >= kRowVector
              ? load_eight<kDtype>(from)
              : load_singly<kDtype>(from, left < kRowVector ? static_cast<int>(left) : kRowVector);
    }
  }
};

template <Dtype kDtype, bool kE5m2, int kVectors>
__global__ __launch_bounds__(kRowThreads, kVectors == 8 ? 3 : 6) void cast_rows_kernel(
    const __grid_constant__ QuantizeParams params) {
  __shared__ RowMaxima<kRowThreads / 32> shared;
  const std::int64_t row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  InputRow<kDtype, kVectors> x;
  x.load(params, row);

  const RowScale scale = write_row_scale(shared, params, row, kRowThreads, x);
  const QuantizedCopy& out = params.out;

  // As in write_row_codes(), which as a function compiles to other code for rows of one vector.
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t col = x.col_of(v, kRowThreads);
    float values[kRowVector];
#pragma unroll
    for (int j = 0; j < kRowVector; ++j) values[j] = x.vectors[v][j];
    const uint2 codes = scale.finite ? cast_eight<kE5m2, true>(values, scale.forward)
                                     : cast_eight<kE5m2, false>(values, scale.forward);
    if (col + kRowVector <= params.cols) {
      *reinterpret_cast<uint2*>(out.values + row * out.pitch + col) = codes;
    } else {
      const std::uint32_t words[2] = {codes.x, codes.y};
      store_edge(out, row, col, params.cols, words);
    }
  }
  write_row_padding(params, row, x.col_of(kVectors, kRowThreads), kRowThreads);
}

}  // namespace sm90

namespace {

template <Dtype kDtype, bool kE5m2>
const void* kernel_of(int vectors) {
  switch (vectors) {
    case 1: return reinterpret_cast<const void*>(sm90::cast_rows_kernel<kDtype, kE5m2, 1>);
    case 2: return reinterpret_cast<const void*>(sm90::cast_rows_kernel<kDtype, kE5m2, 2>);
    case 4: return reinterpret_cast<const void*>(sm90::cast_rows_kernel<kDtype, kE5m2, 4>);
    default: return reinterpret_cast<const void*>(sm90::cast_rows_kernel<kDtype, kE5m2, 8>);
  }
}

template <Dtype kDtype>
const void* kernel_of(const QuantizeProblem& problem) {
  const int vectors = vectors_of_a_row(problem);
  return problem.format == Dtype::e5m2 ? kernel_of<kDtype, true>(vectors)
                                       : kernel_of<kDtype, false>(vectors);
}

}  // namespace

void launch_sm90_rows(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::QuantizeParams params =
      sm90::copies_of(options_of(problem), {args.out, {}}, problem.rows, problem.cols);
  params.input = cuda::matrix_of(args.input);
  params.aligned = cuda::is_aligned16(args.input);
  params.out.scale_pitch = args.out.scales.strides[1];
  void* arguments[] = {&params};
  cuda::launch({problem.input_dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(problem)
                                                   : kernel_of<Dtype::f16>(problem),
                "launch of cuda_sm90_lines", static_cast<unsigned>(problem.rows), kRowThreads, 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
