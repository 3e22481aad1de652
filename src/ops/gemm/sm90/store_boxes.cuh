// Finished tiles that leave through the copy engine: a warp turns 16 rows of 128 bytes at a time in its
// own shared memory, and the copy engine takes them from there.
#pragma once

#include "device/mma/layout.hpp"
#include "device/mma/row_pieces.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/l2_cache.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/sm90/pack16.cuh"
#include "ops/gemm/sm90/storage.cuh"

namespace octet::sm90 {

// A copy in a register of its own, `zero` being one ptxas does not know to be: vectors want their
// elements side by side, and accumulators that had to lie so would bind the main loop's registers.
__device__ __forceinline__ std::uint32_t copied(float value, std::uint32_t zero) {
  return __float_as_uint(value) ^ zero;
}

// The upper or the lower 8 of a warp's 16 rows by some columns, rounded to 16 bits. `acc` is a lane's first
// element of them.
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

// The same of 32 columns as they are.
template <Columns kColumns>
__device__ __forceinline__ void fill_rows32(const float* acc, std::uint32_t rows, int lane,
                                            std::uint32_t zero) {
  if constexpr (kColumns == Columns::paired) {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const float* first = acc + 8 * group;
      ptx::store_shared(rows + swizzle128(lane / 4, 4 * group + lane % 4), copied(first[0], zero),
                        copied(first[1], zero), copied(first[4], zero), copied(first[5], zero));
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t to = rows + swizzle128(lane / 4, 2 * j + lane % 4 / 2) + lane % 2 * 8;
      ptx::store_shared(to, copied(acc[4 * j], zero), copied(acc[4 * j + 1], zero));
    }
  }
}

// A box: both halves, one behind the other.
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

// A box leaves, whose first element is at (row, col) of d. By the copy engine, which clips what lies beyond
// d; it may still be reading when the next box is wanted. What is not added to is not read again here, and
// leaves the L2 cache before the operands do.
template <class C>
__device__ __forceinline__ void leave_as_box(std::uint32_t staging, const GemmMaps& maps,
                                             const GemmParams& params, int row, int col) {
  ptx::fence_shared_writes();
  __syncwarp();
  if (!ptx::elect_lane()) return;
  if (params.accumulate) {
    ptx::add_box(&maps.d, staging, col, row);
  } else if constexpr (C::value.promotion == Promotion::product_of_scales) {
    ptx::store_box_to_leave_first(&maps.d, staging, col, row);
  } else {  // the instruction more would cost its main loop more
    ptx::store_box(&maps.d, staging, col, row);
  }
  ptx::commit_stores();
}

}  // namespace octet::sm90
