// adamw to FP8 on Hopper: a block makes the step of a 128x128 tile of the parameter, and the
// quantiser casts the new weights from registers.
//
// Memory-bound: with everything in bf16, 14 bytes per element and one for each copy. A thread has a
// patch of 8 rows by 8 columns. Its rows of w, g, m and v pass through shared memory, several rows
// ahead and past the registers, which the patch needs: 48 to 64 KiB in flight per block, and two or
// three blocks per multiprocessor, so that one loads while another divides or casts.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "ops/adamw/cuda_sm90_step.cuh"
#include "ops/quantize/cuda_sm90_copies.cuh"

#include <cstddef>

namespace octet::sm90 {

inline constexpr std::size_t kAdamWRingBytes = 65536;  // of rows in flight, at most

// Blocks per multiprocessor that registers allow: a master copy has its row in f32 besides the
// rounded one.
template <class Types>
inline constexpr int kAdamWTileBlocks = Types::kMaster ? 2 : 3;

struct AdamWTileParams {
  AdamWParams step;
  bool aligned;           // all tensors, and all rows of them, start on 16-byte boundaries
  QuantizeParams copies;  // of w
};

// Rows of every thread in shared memory, as vectors of 16 bytes: neighbouring threads have
// neighbouring vectors. Each thread reads only what it copied itself.
template <class Types>
struct AdamWRing {
  static constexpr int kVectors = Types::kLoadedBytes / 16;
  static constexpr int kStages =
      static_cast<int>(kAdamWRingBytes / (kVectors * kQuantizeThreads * sizeof(uint4)));
  static_assert(kStages >= 2 && kStages <= kPatch);
  uint4 vectors[kStages][kVectors][kQuantizeThreads];
};

// The patches of all threads, where a tile is computed element by element.
using AdamWPatches = Eight<Dtype::bf16>[kPatch][kQuantizeThreads];

// The quantiser transposes in memory whose rows have been read by then: `quantize` begins with it.
struct AdamWTileStorage {
  static constexpr std::size_t kShared = sizeof(QuantizeStorage::transposed);
  alignas(128) unsigned char ring[kAdamWRingBytes - kShared];
  QuantizeStorage quantize;
};
static_assert(offsetof(QuantizeStorage, transposed) == 0);
static_assert(offsetof(AdamWTileStorage, quantize) + AdamWTileStorage::kShared == kAdamWRingBytes);
static_assert(sizeof(AdamWPatches) <= kAdamWRingBytes);

template <Dtype kDtype>
__device__ __forceinline__ void copy_to_slot(uint4 (*slot)[kQuantizeThreads], const void* tensor,
                                             std::int64_t first) {
  const char* from = static_cast<const char*>(tensor) + first * kElementBytes<kDtype>;
#pragma unroll
  for (int v = 0; v < Eight<kDtype>::kWords / 4; ++v) {
    ptx::copy_16_bytes(ptx::shared_address(&slot[v][threadIdx.x]), from + 16 * v);
  }
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_from_slot(const uint4 (*slot)[kQuantizeThreads]) {
  return load_vectors<kDtype>([slot](int offset) { return slot[offset / 16][threadIdx.x]; });
}

// Where the vectors of each tensor begin in a row of a thread.
template <class Types>
struct AdamWSlots {
  static constexpr int kG = Eight<Types::kRead>::kWords / 4;
  static constexpr int kM = kG + Eight<Types::kG>::kWords / 4;
  static constexpr int kV = kM + Eight<Types::kM>::kWords / 4;
  static_assert(kV + Eight<Types::kM>::kWords / 4 == AdamWRing<Types>::kVectors);
};

// Starts the copy of a thread's eight elements from `first` on.
template <class Types>
__device__ __forceinline__ void copy_row(AdamWRing<Types>& ring, int stage,
                                         const AdamWParams& params, std::int64_t first) {
  using At = AdamWSlots<Types>;
  auto* slot = ring.vectors[stage];
  copy_to_slot<Types::kRead>(slot, Types::kMaster ? params.master : params.w, first);
  copy_to_slot<Types::kG>(slot + At::kG, params.g, first);
  copy_to_slot<Types::kM>(slot + At::kM, params.m, first);
  copy_to_slot<Types::kM>(slot + At::kV, params.v, first);
}

template <class Types>
__device__ __forceinline__ AdamWEight<Types> load_from_ring(const AdamWRing<Types>& ring,
                                                            int stage) {
  using At = AdamWSlots<Types>;
  const auto* slot = ring.vectors[stage];
  return {load_from_slot<Types::kRead>(slot), load_from_slot<Types::kG>(slot + At::kG),
          load_from_slot<Types::kM>(slot + At::kM), load_from_slot<Types::kM>(slot + At::kV)};
}

// The step of a tile inside the matrix whose tensors are aligned. The patch becomes the new
// weights.
template <class Types>
__device__ __forceinline__ void update_patch(AdamWRing<Types>& ring, const AdamWTileParams& params,
                                             const PatchPlace& place, Patch<Types::kW>& patch) {
  constexpr int kStages = AdamWRing<Types>::kStages;
  const std::uint64_t policy = ptx::evict_first_policy();
  const std::int64_t cols = params.copies.cols;
  const std::int64_t first = place.row0() * cols + place.col0();
#pragma unroll
  for (int i = 0; i < kStages; ++i) {
    copy_row<Types>(ring, i, params.step, first + i * cols);
    ptx::commit_copies();
  }
  const float scale = grad_scale_of(params.step);
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    ptx::wait_copies_but<kStages - 1>();
    AdamWEight<Types> row = load_from_ring<Types>(ring, i % kStages);
    if (i + kStages < kPatch) {
      copy_row<Types>(ring, i % kStages, params.step, first + (i + kStages) * cols);
    }
    ptx::commit_copies();  // an empty group counts as well
    patch.rows[i] = row.update_and_store(params.step, scale, first + i * cols, policy);
  }
}

// The same element by element, for tiles at the edge and any alignment; zeros beyond the matrix.
template <Dtype kDtype>
__device__ __forceinline__ void update_edge(AdamWPatches& patches, const AdamWTileParams& params,
                                            const PatchPlace& place, Patch<kDtype>& patch) {
  const float scale = grad_scale_of(params.step);
#pragma unroll 1
  for (int i = 0; i < kPatch * kPatch; ++i) {
    const std::int64_t row = place.row0() + i / kPatch, col = place.col0() + i % kPatch;
    const bool valid = row < params.copies.rows && col < params.copies.cols;
    const float w = valid ? update_element(params.step, scale, row * params.copies.cols + col) : 0;
    store_element(&patches[i / kPatch][threadIdx.x], i % kPatch, kDtype, w);
  }
#pragma unroll
  for (int i = 0; i < kPatch; ++i) patch.rows[i] = patches[i][threadIdx.x];
}

template <class Types, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kAdamWTileBlocks<Types>) void adamw_tile_kernel(
    const __grid_constant__ AdamWTileParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<AdamWTileStorage*>(memory);
  const unsigned across = params.copies.tiles_across;
  PatchPlace place(blockIdx.x / across, blockIdx.x % across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<Types::kW> patch;
  if (params.aligned && is_inside(params.copies, place)) {
    update_patch<Types>(*reinterpret_cast<AdamWRing<Types>*>(memory), params, place, patch);
  } else {
    update_edge(*reinterpret_cast<AdamWPatches*>(memory), params, place, patch);
  }
  // The ring becomes the quantiser's only after its first __syncthreads: all rows are read by then.
  make_opaque(place);
  quantize_patch<kE5m2>(shared.quantize, params.copies, patch, place);
}

}  // namespace octet::sm90
