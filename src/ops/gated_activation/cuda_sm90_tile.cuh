// gated_activation to FP8 on Hopper: gate and up (and dy) are read once, and the quantiser casts
// the result from registers. No 16-bit result is written to memory.
//
// A block computes a 128x128 tile of y, or the two tiles of dgate and dup at the same columns. dup
// waits in shared memory, each thread its own part, until dgate is stored.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "device/ptx/barrier.cuh"
#include "ops/gated_activation/cuda_sm90_vectors.cuh"
#include "ops/quantize/cuda_sm90_copies.cuh"

namespace octet::sm90 {

// Blocks per multiprocessor that registers allow. 8192x14336 bf16 on an H200: forward 3.99 TB/s
// with three and 3.93 with four, backward 3.80 with two and 3.14 with three that load their
// operands one after the other.
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
  QuantizeParams copies;  // of y, or of dgate and dup side by side
};

// The patches of all threads in shared memory: row by row, so that neighbouring threads have
// neighbouring vectors.
template <Dtype kDtype>
using SharedPatches = Eight<kDtype>[kPatch][kQuantizeThreads];

template <Dtype kDtype>
struct GatedForwardStorage {
  QuantizeStorage quantize;
  alignas(16) SharedPatches<kDtype> gate;
};

template <Dtype kDtype>
struct GatedBackwardStorage {
  QuantizeStorage quantize;
  alignas(16) SharedPatches<kDtype> up;
  alignas(16) SharedPatches<kDtype> dy;  // overwritten by dup
};

// The source of a tile of gate, up or dy. `inside`: the whole tile is inside the matrix.
__device__ __forceinline__ TileSource source_of(const GatedTileParams& params, const Matrix& matrix,
                                                bool inside) {
  return {matrix, params.copies.rows, params.cols, params.aligned, inside};
}

// Copies a thread's patch to shared memory, zeros beyond the matrix. It has arrived after
// ptx::wait_copies().
template <Dtype kDtype>
__device__ __forceinline__ void copy_patch(SharedPatches<kDtype>& to, const TileSource& source,
                                           const PatchPlace& place) {
  if (source.whole()) {
    const char* from =
        element_at<kDtype>(source.matrix, place.row0(), static_cast<int>(place.col0()));
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const std::uint32_t address = ptx::shared_address(&to[i][threadIdx.x]);
#pragma unroll
      for (int bytes = 0; bytes < static_cast<int>(sizeof(Eight<kDtype>)); bytes += 16) {
        ptx::copy_16_bytes(address + bytes, from + bytes);
      }
      from += source.matrix.pitch * kElementBytes<kDtype>;
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < kPatch; ++i) {
      to[i][threadIdx.x] = load_edge<kDtype>(source, place.row0() + i, place.col0());
    }
  }
}

// The activations that leave enough registers for a tile: all but gelu_erf, which runs unfused.
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
  const unsigned across = params.copies.tiles_across;
  const PatchPlace place(blockIdx.x / across, blockIdx.x % across);
  const bool inside = is_inside(params.copies, place);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Read: gate to shared memory, up to the registers that y overwrites
  Patch<kDtype> patch;
  copy_patch<kDtype>(shared.gate, source_of(params, params.gate, inside), place);
  load_patch(patch, source_of(params, params.up, inside), place);
  ptx::wait_copies();

  // Activate
  with_fused_activation(params.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      patch.rows[i] = gated_output<decltype(activation)::value>(
          shared.gate[i][threadIdx.x], patch.rows[i], weight_of_row(params, place.row0() + i));
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
  const unsigned across = params.copies.tiles_across / 2;
  const PatchPlace place(blockIdx.x / across, blockIdx.x % across);
  const bool inside = is_inside(params.copies, place);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Read: up and dy to shared memory, gate to registers
  Patch<kDtype> patch;
  copy_patch<kDtype>(shared.up, source_of(params, params.up, inside), place);
  copy_patch<kDtype>(shared.dy, source_of(params, params.dy, inside), place);
  load_patch(patch, source_of(params, params.gate, inside), place);
  ptx::wait_copies();

  // Differentiate: dgate overwrites gate, dup overwrites dy
  with_fused_activation(params.activation, [&](auto activation) {
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      float unused;
      const GatedGradients<kDtype> gradients = gated_gradients<decltype(activation)::value>(
          shared.dy[i][threadIdx.x], patch.rows[i], shared.up[i][threadIdx.x], RowWeight{nullptr},
          unused);
      patch.rows[i] = gradients.dgate;
      shared.dy[i][threadIdx.x] = gradients.dup;
    }
  });
#pragma unroll 1
  for (unsigned part = 0; part < 2; ++part) {
    if (part == 1) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kPatch; ++i) patch.rows[i] = shared.dy[i][threadIdx.x];
    }
    PatchPlace own(place.tile_row, place.tile_col + part * across);
    make_opaque(own);
    quantize_patch<kE5m2>(shared.quantize, params.copies, patch, own);
  }
}

}  // namespace octet::sm90
