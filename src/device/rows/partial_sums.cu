// out[c] = sum over i of partials[i][c], or out[c] += that, 32 columns per block. Each of 32 warps
// adds every 32nd partial sum, then the first warp adds the results of all warps in their order. One
// launch takes the sums of up to two tensors: each has its own blocks.
#include "device/rows/launch.hpp"

#include "core/numeric.hpp"
#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"

namespace octet::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kWarps = kPartialSumWarps;
// Lines that a warp has in flight: all of them, where two blocks per multiprocessor wrote one each.
constexpr int kLines = 9;

struct Params {
  PartialSums sums[2];
  unsigned first_blocks;  // of sums[0]
};

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

__global__ __launch_bounds__(kColumns* kWarps, 2) void add_partial_sums_kernel(
    const __grid_constant__ Params params) {
  __shared__ float shared[kWarps][kColumns];
  const bool is_second = blockIdx.x >= params.first_blocks;
  const PartialSums& sums = params.sums[is_second];
  const unsigned block = blockIdx.x - (is_second ? params.first_blocks : 0);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int64_t col = std::int64_t{block} * kColumns + lane;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  float sum = 0;
  if (col < sums.cols) {
    for (std::int64_t first = warp; first < sums.count; first += kLines * kWarps) {
      float lines[kLines];
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        const std::int64_t line = first + i * kWarps;
        lines[i] = line < sums.count ? sums.partials[line * sums.cols + col] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kLines; ++i) sum += lines[i];
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

void add_partial_sums(std::span<const PartialSums> sums, void* stream) {
  if (sums.empty()) return;
  Params params{};
  if (sums.size() > std::size(params.sums)) {
    fail(ErrorCode::internal, "add_partial_sums takes two sums, got ", sums.size());
  }
  unsigned blocks = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    params.sums[i] = sums[i];
    if (i == 1) params.first_blocks = blocks;
    blocks += static_cast<unsigned>((sums[i].cols + kColumns - 1) / kColumns);
  }
  if (sums.size() == 1) params.first_blocks = blocks;
  void* arguments[] = {&params};
  launch({reinterpret_cast<const void*>(add_partial_sums_kernel), "launch of add_partial_sums",
          blocks, kColumns * kWarps, 0, static_cast<cudaStream_t>(stream)},
         arguments);
}

}  // namespace octet::cuda
