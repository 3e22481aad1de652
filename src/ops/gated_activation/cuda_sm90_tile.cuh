// gated_activation to FP8 on Hopper: gate and up (and dy) are read once, the result goes from
// registers through the quantiser. No 16-bit result exists in memory.
//
// A block makes a 128x128 tile of y, or the two tiles of dgate and dup at the same columns. The
// second of those waits in shared memory, each thread's own part, until the first has left.
#pragma once

#include "device/ptx/async_copy.cuh"
#include "device/ptx/barrier.cuh"
#include "ops/fp8_output/cuda_sm90_patch.cuh"
#include "ops/gated_activation/cuda_sm90_vectors.cuh"

namespace octet::sm90 {

// Blocks per multiprocessor that registers allow; measured on an H200, 8192x14336 bf16: forward 3.99
// TB/s with three and 3.93 with four, backward 3.80 with two and 3.14 with three that read in turns.
inline constexpr int kGatedForwardBlocks = 3;
inline constexpr int kGatedBackwardBlocks = 2;

struct GatedTileParams {
  Matrix gate;              // [rows, cols]
  Matrix up;                // [rows, cols]
  Matrix dy;                // [rows, cols]; backward
  const float* row_weight;  // [rows], or null
  std::int64_t cols;  // of gate; in backward a multiple of 128, and the copies have twice as many
  GateActivation activation;
  bool aligned;           // rows of gate, up and dy start on 16-byte boundaries
  QuantizeParams copies;  // of y, or of dgate | dup
};

// What a thread has waiting in shared memory: a row of its patch each, beside those of its neighbours.
template <Dtype kDtype>
using WaitingPatches = Eight<kDtype>[kPatch][kQuantizeThreads];

template <Dtype kDtype>
struct GatedForwardStorage {
  QuantizeStorage quantize;
  alignas(16) WaitingPatches<kDtype> gate;
};

template <Dtype kDtype>
struct GatedBackwardStorage {
  QuantizeStorage quantize;
  alignas(16) WaitingPatches<kDtype> up;
  alignas(16) WaitingPatches<kDtype> dy;  // and dup behind it
};

// Brings a row of a thread's patch to shared memory, zeros where there is none; it is there after
// ptx::wait_copies().
template <Dtype kDtype>
__device__ __forceinline__ void bring_patch_row(Eight<kDtype>& to, const Matrix& matrix,
                                                std::int64_t row, std::int64_t col,
                                                std::int64_t rows, std::int64_t cols, bool whole) {
  if (whole) {
    const char* from = element_at<kDtype>(matrix, row, static_cast<int>(col));
    const std::uint32_t address = ptx::shared_address(&to);
#pragma unroll
    for (int bytes = 0; bytes < static_cast<int>(sizeof(to)); bytes += 16) {
      ptx::copy_16_bytes(address + bytes, from + bytes);
    }
  } else {
    to = load_edge<kDtype>(matrix.data, matrix.pitch, row, col, rows, cols);
  }
}

// Those whose registers leave room for the tile: all but gelu_erf, which runs unfused.
template <class Body>
__device__ __forceinline__ void with_fused_activation(GateActivation activation, const Body& body) {
  switch (activation) {
    case GateActivation::gelu_tanh: body(Constant<GateActivation::gelu_tanh>()); break;
    case GateActivation::relu_squared: body(Constant<GateActivation::relu_squared>()); break;
    default: body(Constant<GateActivation::silu>()); break;
  }
}

__device__ __forceinline__ RowWeight weight_of_row(const GatedTileParams& params,
                                                   std::int64_t row) {
  return {params.row_weight != nullptr && row < params.copies.rows ? params.row_weight + row
                                                                   : nullptr};
}

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kGatedForwardBlocks) void gated_forward_tile_kernel(
    const __grid_constant__ GatedTileParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<GatedForwardStorage<kDtype>*>(memory);
  const auto across = static_cast<unsigned>(params.copies.tiles_across);
  const PatchPlace place(blockIdx.x / across, blockIdx.x % across);
  const std::int64_t rows = params.copies.rows;
  const bool whole = params.aligned && is_inside(params.copies, place);
  ptx::wait_for_earlier_kernels();

  // Read: gate to shared memory, up to the registers that y will have
  Patch<typename InputOf<kDtype>::Type> patch;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    bring_patch_row<kDtype>(shared.gate[i][threadIdx.x], params.gate, place.row0() + i,
                            place.col0(), rows, params.cols, whole);
  }
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    set_row<kDtype>(patch, i,
                    load_patch_row<kDtype>(params.up, place.row0() + i, place.col0(), rows,
                                           params.cols, whole));
  }
  ptx::wait_copies();

  // Activate
  with_fused_activation(params.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      set_row<kDtype>(
          patch, i,
          gated<decltype(activation)::value>(shared.gate[i][threadIdx.x], get_row<kDtype>(patch, i),
                                             weight_of_row(params, place.row0() + i)));
    }
  });
  quantize_patch<kE5m2>(shared.quantize, params.copies, patch, place);
}

template <Dtype kDtype, bool kE5m2>
__global__
__launch_bounds__(kQuantizeThreads, kGatedBackwardBlocks) void gated_backward_tile_kernel(
    const __grid_constant__ GatedTileParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<GatedBackwardStorage<kDtype>*>(memory);
  const auto across = static_cast<unsigned>(params.copies.tiles_across / 2);
  const PatchPlace place(blockIdx.x / across, blockIdx.x % across);
  const std::int64_t rows = params.copies.rows;
  const bool whole = params.aligned && is_inside(params.copies, place);
  ptx::wait_for_earlier_kernels();

  // Read: up and dy to shared memory, gate to registers
  Patch<typename InputOf<kDtype>::Type> patch;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    bring_patch_row<kDtype>(shared.up[i][threadIdx.x], params.up, place.row0() + i, place.col0(),
                            rows, params.cols, whole);
    bring_patch_row<kDtype>(shared.dy[i][threadIdx.x], params.dy, place.row0() + i, place.col0(),
                            rows, params.cols, whole);
  }
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    set_row<kDtype>(patch, i,
                    load_patch_row<kDtype>(params.gate, place.row0() + i, place.col0(), rows,
                                           params.cols, whole));
  }
  ptx::wait_copies();

  // Differentiate: dgate takes the place of gate, dup waits where dy was
  with_fused_activation(params.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float unused;
      const GatedGradients<kDtype> gradients = gated_gradients<decltype(activation)::value>(
          shared.dy[i][threadIdx.x], get_row<kDtype>(patch, i), shared.up[i][threadIdx.x],
          weight_of_row(params, place.row0() + i), unused);
      set_row<kDtype>(patch, i, gradients.dgate);
      shared.dy[i][threadIdx.x] = gradients.dup;
    }
  });
#pragma unroll 1
  for (unsigned part = 0; part < 2; ++part) {
    if (part == 1) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kPatch; ++i) set_row<kDtype>(patch, i, shared.dy[i][threadIdx.x]);
    }
    quantize_patch<kE5m2>(shared.quantize, params.copies, patch,
                          PatchPlace(place.tile_row, place.tile_col + part * across));
  }
}

}  // namespace octet::sm90
