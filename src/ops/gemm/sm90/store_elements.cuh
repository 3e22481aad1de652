// Finished tiles stored element by element: f32 results and 16-bit results of paired columns where rows of d
// are not on 16-byte boundaries, and sums into bf16.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace octet::sm90 {

// A lane's column of a box of 16 rows by 32. What is added to is read four rows at a time: more would take
// registers from the main loop. The addition is an ordinary one: an atomic one would flush subnormals.
template <class C, class T>
__device__ __forceinline__ void store_column(std::uint32_t staging, int lane,
                                             const Params<C>& params, TargetOf<C> target, int row,
                                             int col) {
  T* to = d_of<T, C>(params, target) + row * params.d_pitch + col + lane;
  const int rows = col + lane < params.n ? end_row<C>(params, target) - row : 0;
  constexpr int kRows = 4;
#pragma unroll 1
  for (int first = 0; first < kBoxRows; first += kRows) {
    float had[kRows] = {};
    if (params.accumulate) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (first + i < rows) had[i] = static_cast<float>(to[(first + i) * params.d_pitch]);
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float value =
          ptx::load_shared(staging + swizzle128(first + i, lane / 4) + lane % 4 * 4);
      if (first + i < rows) {
        to[(first + i) * params.d_pitch] =
            static_cast<T>(params.accumulate ? had[i] + value : value);
      }
    }
  }
}

template <class C>
__device__ __forceinline__ void store_elements(std::uint32_t staging, int lane,
                                               const Params<C>& params, TargetOf<C> target, int row,
                                               int col) {
  if (params.d_dtype == Dtype::f32) {
    store_column<C, float>(staging, lane, params, target, row, col);
  } else if (params.d_dtype == Dtype::bf16) {
    store_column<C, __nv_bfloat16>(staging, lane, params, target, row, col);
  } else {
    store_column<C, __half>(staging, lane, params, target, row, col);
  }
}

}  // namespace octet::sm90
