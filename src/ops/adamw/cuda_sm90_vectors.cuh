// adamw on Hopper: a thread takes eight neighbouring elements at a time, in vectors of 16 bytes.
//
// Memory-bound: 14 bytes per element with everything in bf16, read and written once, evict first.
// A thread loads all its vectors before it computes: 128 bytes in flight per thread and 128 KiB per
// SM with 16-bit tensors. An element takes about 45 instructions, half of them for the division and
// the square root; 98 fit into the time of its 14 bytes.
#pragma once

#include "ops/adamw/cuda_sm90_step.cuh"

namespace octet::sm90 {

// All tensors on 16-byte boundaries. The elements beyond the last eight are the last block's.
template <class Types>
__global__ __launch_bounds__(kAdamWThreads) void adamw_eights_kernel(
    const __grid_constant__ AdamWParams params) {
  constexpr std::int64_t kStride = kAdamWThreads * kEight;
  const std::int64_t begin =
      blockIdx.x * (kStride * Types::kEights) + std::int64_t{threadIdx.x} * kEight;
  const std::uint64_t policy = ptx::evict_first_policy();
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const float scale = grad_scale_of(params);
  AdamWEight<Types> eights[Types::kEights];
#pragma unroll
  for (int e = 0; e < Types::kEights; ++e) {
    const std::int64_t first = begin + e * kStride;
    if (first + kEight <= params.count) eights[e].load(params, first, policy);
  }
#pragma unroll
  for (int e = 0; e < Types::kEights; ++e) {
    const std::int64_t first = begin + e * kStride;
    if (first + kEight <= params.count) eights[e].update_and_store(params, scale, first, policy);
  }
  const std::int64_t tail = params.count / kEight * kEight + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && tail < params.count) update_element(params, scale, tail);
}

// Any dtypes and alignment, an element per thread.
__global__ __launch_bounds__(kAdamWThreads) void adamw_elements_kernel(
    const __grid_constant__ AdamWParams params) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kAdamWThreads + threadIdx.x;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (i < params.count) update_element(params, grad_scale_of(params), i);
}

}  // namespace octet::sm90
