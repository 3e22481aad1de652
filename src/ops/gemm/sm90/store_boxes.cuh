// Finished tiles stored through TMA: each warp rearranges 16 rows of 128 bytes at a time in its own
// shared memory, and TMA stores the box from there.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace octet::sm90 {

// Two f32 results rounded to 16 bits, in one word.
__device__ __forceinline__ std::uint32_t pack16(float low, float high, Dtype dtype) {
  std::uint32_t bits;
  if (dtype == Dtype::bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    bits = reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    bits = reinterpret_cast<const std::uint32_t&>(pair);
  }
  return bits;
}

// Copies through `value ^ zero`, with a zero that ptxas cannot see through. Without the copy a
// vector store would force the accumulators into consecutive registers and constrain the main loop.
__device__ __forceinline__ std::uint32_t register_copy(float value, std::uint32_t zero) {
  return __float_as_uint(value) ^ zero;
}

// Writes the upper or the lower 8 of a warp's 16 rows, kCols wide, rounded to 16 bits. `acc` is the
// lane's first element of them.
template <Columns kColumns, int kCols>
__device__ __forceinline__ void fill_rows16(const float* acc, std::uint32_t rows, int lane,
                                            Dtype dtype) {
  if constexpr (kColumns == Columns::paired) {
#pragma unroll
    for (int q = 0; q < kCols / 16; ++q) {
      const float* first = acc + 8 * q;
      ptx::store_shared(rows + swizzled_chunk(kCols, lane / 4, 2 * q + lane % 4 / 2) + lane % 2 * 8,
                        pack16(first[0], first[1], dtype), pack16(first[4], first[5], dtype));
    }
  } else {
#pragma unroll
    for (int q = 0; q < kCols / 32; ++q) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = pack16(acc[16 * q + 4 * i], acc[16 * q + 4 * i + 1], dtype);
      }
      ptx::store_matrices(rows + swizzled_chunk(kCols, lane % 8, 4 * q + lane / 8), words);
    }
  }
}

// The same for 32 columns of f32.
template <Columns kColumns>
__device__ __forceinline__ void fill_rows32(const float* acc, std::uint32_t rows, int lane,
                                            std::uint32_t zero) {
  if constexpr (kColumns == Columns::paired) {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const float* first = acc + 8 * group;
      ptx::store_shared(rows + swizzle128(lane / 4, 4 * group + lane % 4),
                        register_copy(first[0], zero), register_copy(first[1], zero),
                        register_copy(first[4], zero), register_copy(first[5], zero));
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t to = rows + swizzle128(lane / 4, 2 * j + lane % 4 / 2) + lane % 2 * 8;
      ptx::store_shared(to, register_copy(acc[4 * j], zero), register_copy(acc[4 * j + 1], zero));
    }
  }
}

// A box: the upper eight rows, then the lower eight.
template <Columns kColumns, int kCols>
__device__ __forceinline__ void fill_box16(const float* acc, std::uint32_t staging, int lane,
                                           Dtype dtype) {
  fill_rows16<kColumns, kCols>(acc, staging, lane, dtype);
  fill_rows16<kColumns, kCols>(acc + 2, staging + kAtomRows * kCols * 2, lane, dtype);
}
template <Columns kColumns>
__device__ __forceinline__ void fill_box32(const float* acc, std::uint32_t staging, int lane,
                                           std::uint32_t zero) {
  fill_rows32<kColumns>(acc, staging, lane, zero);
  fill_rows32<kColumns>(acc + 2, staging + kAtomRows * kRowBytes, lane, zero);
}

// The copies of a box to its place: of d, over rows of the group's rows, over the contraction of its own d.
template <class C>
__device__ __forceinline__ void add_box_to(const CUtensorMap* map, std::uint32_t staging,
                                           TargetOf<C> target, int row, int col) {
  if constexpr (kGroups<C> == Groups::contraction) {
    ptx::add_box(map, staging, col, row, target.group);
  } else {
    ptx::add_box(map, staging, col, row);
  }
}
template <class C>
__device__ __forceinline__ void store_box_to(const CUtensorMap* map, std::uint32_t staging,
                                             TargetOf<C> target, int row, int col) {
  constexpr bool kEvictFirst = C::value.promotion != Promotion::one_by_one;
  if constexpr (kGroups<C> == Groups::rows) {
    static_assert(kEvictFirst, "no ragged store without the hint");
    ptx::store_box_evict_first(map, staging, col, ragged_row(row, target.end), target.end,
                               kRaggedExtent);
  } else if constexpr (kGroups<C> == Groups::contraction) {
    kEvictFirst ? ptx::store_box_evict_first(map, staging, col, row, target.group)
                : ptx::store_box(map, staging, col, row, target.group);
  } else {
    kEvictFirst ? ptx::store_box_evict_first(map, staging, col, row)
                : ptx::store_box(map, staging, col, row);
  }
}

// Stores the staged box to d at (row, col), through TMA, which clips what lies beyond d. TMA may
// still be reading the staging memory when this returns. Results that are not added to are not read
// again here, so they are stored with an evict-first hint and the operands stay in the L2 cache; with two
// operations per accumulator the hint costs the main loop more than it gains.
template <class C>
__device__ __forceinline__ void store_staged_box(std::uint32_t staging, const Maps<C>& maps,
                                                 const Params<C>& params, TargetOf<C> target,
                                                 int row, int col) {
  ptx::fence_shared_writes();
  __syncwarp();
  if (!ptx::elect_lane()) return;
  if (kGroups<C> != Groups::rows && params.accumulate) {
    add_box_to<C>(&maps.d, staging, target, row, col);
  } else {
    store_box_to<C>(&maps.d, staging, target, row, col);
  }
  ptx::commit_stores();
}

}  // namespace octet::sm90
