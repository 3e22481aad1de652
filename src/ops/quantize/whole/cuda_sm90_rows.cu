// A row copy with a scale per row, from one read: a block of threads holds a row in registers, finds
// its largest magnitude and casts it. Memory-bound.
#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/launches.hpp"
#include "ops/quantize/whole/cuda_sm90_lines.cuh"

namespace octet {
namespace sm90 {

// What a block of 256 threads needs to reduce one number.
inline constexpr int kRowWarps = kRowThreads / 32;

template <Dtype kDtype, int kVectors>
struct RowInRegisters {
  Eight<kDtype> vectors[kVectors];

  // The first column of a thread's vector.
  static __device__ __forceinline__ std::int64_t col_of(int v) {
    return (std::int64_t{v} * kRowThreads + threadIdx.x) * kRowVector;
  }

  __device__ __forceinline__ void load(const QuantizeParams& params, std::int64_t row) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t col = col_of(v);
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

  // The largest magnitude of this thread.
  __device__ __forceinline__ std::uint32_t largest(bool finite_only) const {
    using Of = Magnitudes<kDtype>;
    std::uint32_t words = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int w = 0; w < Eight<kDtype>::kWords; ++w) {
        words = Of::larger(words, Of::of(vectors[v].words[w], finite_only));
      }
    }
    return max(words >> 16, words & 0xFFFF);
  }
};

// The largest number of the block; `shared` may be used again after the next barrier.
__device__ __forceinline__ std::uint32_t block_maximum(std::uint32_t (&shared)[kRowWarps],
                                                       std::uint32_t value) {
  const std::uint32_t of_warp = __reduce_max_sync(~0u, value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = of_warp;
  __syncthreads();
  std::uint32_t largest = 0;
#pragma unroll
  for (int w = 0; w < kRowWarps; ++w) largest = max(largest, shared[w]);
  return largest;
}

template <Dtype kDtype, bool kE5m2, int kVectors>
__global__ __launch_bounds__(kRowThreads, kVectors == 8 ? 3 : 6) void cast_rows_kernel(
    const __grid_constant__ QuantizeParams params) {
  __shared__ std::uint32_t shared[2][kRowWarps];
  const std::int64_t row = blockIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  RowInRegisters<kDtype, kVectors> x;
  x.load(params, row);

  // Scale
  std::uint32_t largest = block_maximum(shared[0], x.largest(false));
  const bool finite = largest < Magnitudes<kDtype>::kInfinity;
  if (!finite) largest = block_maximum(shared[1], x.largest(true));
  const BlockScale scale = block_scale(Magnitudes<kDtype>::decode(largest), params.limit,
                                       params.amax_floor, params.pow2_scales);
  const QuantizedCopy& out = params.out;
  if (threadIdx.x == 0) out.scales[row * out.scale_strides[0]] = scale.inverse;
  if (out.owns_padding && row == params.rows - 1) {
    for (std::int64_t pad = params.rows + threadIdx.x; pad < out.scale_pitch; pad += kRowThreads) {
      out.scales[pad * out.scale_strides[0]] = 1.0f;
    }
  }

  // Values
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t col = x.col_of(v);
    float values[kRowVector];
#pragma unroll
    for (int j = 0; j < kRowVector; ++j) values[j] = x.vectors[v][j];
    const uint2 codes = finite ? cast_eight<kE5m2, true>(values, scale.forward)
                               : cast_eight<kE5m2, false>(values, scale.forward);
    if (col + kRowVector <= params.cols) {
      *reinterpret_cast<uint2*>(out.values + row * out.pitch + col) = codes;
    } else {
      const std::uint32_t words[2] = {codes.x, codes.y};
      store_edge(out, row, col, params.cols, words);
    }
  }
  if (!out.owns_padding) return;
  constexpr std::uint32_t kZeros[2] = {};
#pragma unroll 1
  for (std::int64_t col = x.col_of(kVectors); col < out.pitch; col += kRowThreads * kRowVector) {
    store_edge(out, row, col, params.cols, kZeros);
  }
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
