// out[c] = sum over i of partials[i][c], or out[c] += that, 32 columns per block. Each of 32 warps adds every 32nd
// partial sum, then the first warp adds the results of all warps in their order.
#include "device/rows/launch.hpp"

#include "core/numeric.hpp"
#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"

namespace octet::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kWarps = kPartialSumWarps;

__device__ float load(const void* out, std::int64_t index, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return f32_from_bf16(static_cast<const std::uint16_t*>(out)[index]);
    case Dtype::f16: return f32_from_f16(static_cast<const std::uint16_t*>(out)[index]);
    default: return static_cast<const float*>(out)[index];
  }
}

__device__ void store(void* out, std::int64_t index, Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::bf16: static_cast<std::uint16_t*>(out)[index] = bf16_from_f32(value); break;
    case Dtype::f16: static_cast<std::uint16_t*>(out)[index] = f16_from_f32(value); break;
    default: static_cast<float*>(out)[index] = value; break;
  }
}

__global__ __launch_bounds__(kColumns* kWarps) void add_partial_sums_kernel(PartialSums sums) {
  __shared__ float shared[kWarps][kColumns];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int64_t col = std::int64_t{blockIdx.x} * kColumns + lane;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  float sum = 0;
  if (col < sums.cols) {
#pragma unroll 4
    for (std::int64_t i = warp; i < sums.count; i += kWarps) {
      sum += sums.partials[i * sums.cols + col];
    }
  }
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || col >= sums.cols) return;
  for (int w = 1; w < kWarps; ++w) sum += shared[w][lane];
  if (sums.accumulate) sum = load(sums.out, col, sums.dtype) + sum;
  store(sums.out, col, sums.dtype, sum);
}

}  // namespace

void add_partial_sums(const PartialSums& sums, void* stream) {
  PartialSums params = sums;
  void* arguments[] = {&params};
  const auto blocks = static_cast<unsigned>((sums.cols + kColumns - 1) / kColumns);
  launch({reinterpret_cast<const void*>(add_partial_sums_kernel), "launch of add_partial_sums",
          blocks, kColumns * kWarps, 0, static_cast<cudaStream_t>(stream)},
         arguments);
}

}  // namespace octet::cuda
