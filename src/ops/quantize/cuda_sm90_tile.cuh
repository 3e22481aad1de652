// FP8 copies of a matrix, one 128x128 tile per block: read once, both copies from registers. bf16 in,
// two bytes out per element; enough blocks per multiprocessor keep loads in flight.
#pragma once

#include "device/ptx/dependent_launch.cuh"
#include "ops/quantize/cuda_sm90_copies.cuh"

namespace octet::sm90 {

// Blocks per multiprocessor that registers allow. Three of 80 registers, and four of 64 that decode each
// element twice, move the same: 3.8 TB/s on an H200, dual bf16 8192x8192.
template <Dtype kDtype>
inline constexpr int kResidentBlocks = kDtype == Dtype::f32 ? 2 : 3;

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void quantize_kernel(
    const __grid_constant__ QuantizeParams params) {
  __shared__ QuantizeStorage shared;
  const PatchPlace place(blockIdx.x / params.tiles_across, blockIdx.x % params.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<kDtype> patch;
  load_patch(patch,
             {params.input, params.rows, params.cols, params.aligned, is_inside(params, place)},
             place);
  quantize_patch<kE5m2>(shared, params, patch, place);
}

}  // namespace octet::sm90
