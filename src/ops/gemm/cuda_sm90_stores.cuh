// How finished tiles of the Hopper product leave: a warp turns 16 rows of 128 bytes at a time in its
// own shared memory, from where the copy engine takes them, or its lanes write rows in runs.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/cuda_sm90_products.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace octet::sm90 {

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

// A copy in a register of its own, `zero` being one ptxas does not know to be: vectors want their
// elements side by side, and accumulators that had to lie so would bind the main loop's registers.
__device__ __forceinline__ std::uint32_t copied(float value, std::uint32_t zero) {
  return __float_as_uint(value) ^ zero;
}

// 16 rows by 64 columns of a warp, rounded to 16 bits.
template <Columns kColumns>
__device__ __forceinline__ void fill_box16(const float* acc, std::uint32_t staging, int lane,
                                           Dtype dtype) {
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = pack16(acc[8 * q + 2 * i], acc[8 * q + 2 * i + 1], dtype);
    }
    if constexpr (kColumns == Columns::paired) {
      const std::uint32_t to = staging + swizzle128(lane / 4, 2 * q + lane % 4 / 2) + lane % 2 * 8;
      ptx::store_shared(to, words[0], words[2]);
      ptx::store_shared(to + kAtomRows * kRowBytes, words[1], words[3]);
    } else {
      const int matrix = lane / 8;
      const int matrix_row = matrix % 2 * 8 + lane % 8;
      ptx::store_matrices(staging + swizzle128(matrix_row, 2 * q + matrix / 2), words);
    }
  }
}

// 16 rows by 32 columns of a warp as they are.
template <Columns kColumns>
__device__ __forceinline__ void fill_box32(const float* acc, std::uint32_t staging, int lane,
                                           std::uint32_t zero) {
#pragma unroll
  for (int below = 0; below < 2; ++below) {
    const std::uint32_t rows = staging + below * kAtomRows * kRowBytes;
    const float* own = acc + 2 * below;
    if constexpr (kColumns == Columns::paired) {
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const float* first = own + 8 * group;
        ptx::store_shared(rows + swizzle128(lane / 4, 4 * group + lane % 4), copied(first[0], zero),
                          copied(first[1], zero), copied(first[4], zero), copied(first[5], zero));
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t to = rows + swizzle128(lane / 4, 2 * j + lane % 4 / 2) + lane % 2 * 8;
        ptx::store_shared(to, copied(own[4 * j], zero), copied(own[4 * j + 1], zero));
      }
    }
  }
}

// A box leaves: 16 rows of 128 bytes, whose first element is at (row, col) of d. By the copy engine,
// which clips what lies beyond d; it may still be reading when the next box is wanted.
__device__ __forceinline__ void leave_as_box(std::uint32_t staging, int lane, const GemmMaps& maps,
                                             const GemmParams& params, int row, int col) {
  ptx::fence_shared_writes();
  __syncwarp();
  if (lane != 0) return;
  if (params.accumulate) {
    ptx::add_box(&maps.d, staging, col, row);
  } else {
    ptx::store_box(&maps.d, staging, col, row);
  }
  ptx::commit_stores();
}

// Two 16-bit elements at once, but for the first or the last of a row, which may stand alone. Four rows
// are read before any is written.
__device__ __forceinline__ void leave_in_pairs(std::uint32_t staging, int lane,
                                               const GemmParams& params, int row, int col) {
  const int cols = min(64, params.n - col);
  auto* to = static_cast<std::uint16_t*>(params.d) + row * params.d_pitch + col;
#pragma unroll 1
  for (int first_row = 0; first_row < 16; first_row += 4) {
    std::uint32_t words[4];
    std::uint32_t behind[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto word_of = [&](int word) {
        return ptx::load_shared_word(staging + swizzle128(first_row + i, word / 4) + word % 4 * 4);
      };
      words[i] = word_of(lane);
      behind[i] = word_of((lane + 1) % 32);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (row + first_row + i >= params.m) return;
      const bool odd = reinterpret_cast<std::uintptr_t>(to) % 4 != 0;
      const std::uint32_t pair = odd ? __funnelshift_r(words[i], behind[i], 16) : words[i];
      const int at = 2 * lane + odd;
      if (at + 1 < cols) {
        *reinterpret_cast<std::uint32_t*>(to + at) = pair;
      } else if (at < cols) {
        to[at] = static_cast<std::uint16_t>(pair);
      }
      if (odd && lane == 0 && cols > 0) to[0] = static_cast<std::uint16_t>(words[i]);
      to += params.d_pitch;
    }
  }
}

__device__ __forceinline__ void leave_element(const GemmParams& params, int row, int col,
                                              float value) {
  const std::int64_t index = row * params.d_pitch + col;
  if (params.d_dtype == Dtype::bf16) {
    __nv_bfloat16* to = static_cast<__nv_bfloat16*>(params.d) + index;
    *to = __float2bfloat16_rn(__bfloat162float(*to) + value);
  } else if (params.accumulate) {
    atomicAdd(static_cast<float*>(params.d) + index, value);
  } else {
    static_cast<float*>(params.d)[index] = value;
  }
}

__device__ __forceinline__ void leave_in_elements(std::uint32_t staging, int lane,
                                                  const GemmParams& params, int row, int col) {
  if (col + lane >= params.n) return;
#pragma unroll 4
  for (int i = 0; i < 16; ++i) {
    if (row + i >= params.m) return;
    const std::uint32_t word =
        ptx::load_shared_word(staging + swizzle128(i, lane / 4) + lane % 4 * 4);
    leave_element(params, row + i, col + lane, __uint_as_float(word));
  }
}

template <class C>
__device__ __forceinline__ void store_tile(const Consumer<C>& consumer, const GemmMaps& maps,
                                           const GemmParams& params, TileIndex tile) {
  constexpr Sm90GemmConfig c = C::value;
  using Consumer = Consumer<C>;
  const int lane = lane_index();
  const int warp = warp_index();
  const int warpgroup = consumer_warpgroup();
  const std::uint32_t staging =
      consumer.base + offsetof(SharedStorage<C>, staging) + (warpgroup * 4 + warp) * kStagingBytes;
  const std::uint32_t zero = opaque(0u);
  const int row0 =
      tile.m * c.tile_m + warp * 16 + (consumers_split_m(c) ? warpgroup * consumer_rows(c) : 0);
  const int col0 = tile.n * c.tile_n + (consumers_split_m(c) ? 0 : warpgroup * consumer_cols(c));
  const bool narrow = params.store == Store::box16 || params.store == Store::pairs16;
#pragma unroll
  for (int wave = 0; wave < Consumer::kWaves; ++wave) {
    const int row = row0 + wave / Consumer::kWavesN * kWaveM;
    const int col = col0 + wave % Consumer::kWavesN * wave_n(c);
    if (narrow) {
#pragma unroll
      for (int box = 0; box < wave_n(c) / 64; ++box) {
        ptx::wait_stores_read();
        __syncwarp();
        fill_box16<c.columns>(&consumer.acc[wave][32 * box], staging, lane, params.d_dtype);
        if (params.store == Store::box16) {
          leave_as_box(staging, lane, maps, params, row, col + 64 * box);
        } else {
          __syncwarp();
          leave_in_pairs(staging, lane, params, row, col + 64 * box);
        }
      }
    } else {
#pragma unroll
      for (int box = 0; box < wave_n(c) / 32; ++box) {
        ptx::wait_stores_read();
        __syncwarp();
        fill_box32<c.columns>(&consumer.acc[wave][16 * box], staging, lane, zero);
        if (params.store == Store::box32) {
          leave_as_box(staging, lane, maps, params, row, col + 32 * box);
        } else {
          __syncwarp();
          leave_in_elements(staging, lane, params, row, col + 32 * box);
        }
      }
    }
  }
}

}  // namespace octet::sm90
