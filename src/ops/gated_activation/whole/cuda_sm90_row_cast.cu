// gated_activation to FP8 on Hopper with a scale per row, in one pass: a block of threads reads a row
// of gate and of up, keeps y in registers, finds its largest magnitude and casts it. y is rounded to
// 16 bits before the cast, but never written. Memory-bound.
#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/gated_activation/cuda_sm90_vectors.cuh"
#include "ops/gated_activation/whole/row_cast.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/whole/cuda_sm90_row_cast.cuh"

namespace octet {
namespace sm90 {

struct GatedRowCastParams {
  Matrix gate;              // [rows, cols]
  Matrix up;                // [rows, cols]
  const float* row_weight;  // [rows], or null
  GateActivation activation;
  bool aligned;  // rows of gate and up start on 16-byte boundaries, cols is a multiple of eight
  bool e5m2;
  QuantizeParams copies;
};

// Eight elements of a row, zeros beyond its end.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_part(const GatedRowCastParams& params,
                                                   const Matrix& matrix, std::int64_t row,
                                                   std::int64_t col) {
  const auto cols = static_cast<int>(params.copies.cols);
  const auto at = static_cast<int>(col);
  if (at >= cols) return {};
  return params.aligned ? load_row<kDtype, Rows::whole>(matrix, row, at, cols)
                        : load_row<kDtype, Rows::ragged>(matrix, row, at, cols);
}

// Loads of two vectors of both inputs are in flight at once. Two activations under one branch would take
// too many registers: 44 to 52 bytes of spills.
template <Dtype kDtype, int kVectors>
__device__ __forceinline__ void activate_row(const GatedRowCastParams& params, std::int64_t row,
                                             int threads, RowInRegisters<kDtype, kVectors>& y) {
  const RowWeight weight{params.row_weight != nullptr ? params.row_weight + row : nullptr};
  constexpr int kGroup = 2;
#pragma unroll
  for (int first = 0; first < kVectors; first += kGroup) {
    Eight<kDtype> gate[kGroup];
    Eight<kDtype> up[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const std::int64_t col = y.col_of(first + i, threads);
      gate[i] = load_part<kDtype>(params, params.gate, row, col);
      up[i] = load_part<kDtype>(params, params.up, row, col);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      with_activation(params.activation, [&](auto activation) {
        y.vectors[first + i] = gated_output<decltype(activation)::value>(gate[i], up[i], weight);
      });
    }
  }
}

// 64 registers per thread.
template <Dtype kDtype, int kVectors>
__global__ __launch_bounds__(kGatedRowThreads, 2) void gated_row_cast_kernel(
    const __grid_constant__ GatedRowCastParams params) {
  __shared__ RowMaxima<kGatedRowThreads / 32> maxima;
  const auto threads = static_cast<int>(blockDim.x);
  const std::int64_t row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  RowInRegisters<kDtype, kVectors> y;
  activate_row(params, row, threads, y);
  const RowScale scale = write_row_scale(maxima, params.copies, row, threads, y);
  if (params.e5m2) {
    write_row_codes<true>(params.copies, row, threads, scale, y);
  } else {
    write_row_codes<false>(params.copies, row, threads, scale, y);
  }
}

}  // namespace sm90

namespace {

using sm90::GatedRowCastParams;

using Kernel = void (*)(GatedRowCastParams);

template <Dtype kDtype>
Kernel kernel_of(int vectors) {
  switch (vectors) {
    case 2: return sm90::gated_row_cast_kernel<kDtype, 2>;
    case 4: return sm90::gated_row_cast_kernel<kDtype, 4>;
    default: return sm90::gated_row_cast_kernel<kDtype, 8>;
  }
}

}  // namespace

void launch_sm90_gated_row_cast(const GatedActivationProblem& problem,
                                const GatedActivationForwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const RowThreads row = row_threads(problem.cols);
  GatedRowCastParams params{};
  params.gate = cuda::matrix_of(args.gate);
  params.up = cuda::matrix_of(args.up);
  params.row_weight =
      problem.row_weight ? static_cast<const float*>(args.row_weight.data) : nullptr;
  params.activation = problem.activation;
  params.aligned = problem.cols % 8 == 0 && cuda::are_aligned16({args.gate, args.up});
  params.e5m2 = problem.fp8->format == Dtype::e5m2;
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  void* arguments[] = {&params};
  const Kernel kernel = problem.dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(row.vectors)
                                                     : kernel_of<Dtype::f16>(row.vectors);
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_row_cast",
                static_cast<unsigned>(problem.rows), static_cast<unsigned>(row.count), 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
