// The softmax of a consumer's scores, in the accumulators of a wgmma: a thread has two rows.
#pragma once

#include "device/ptx/arithmetic.cuh"

#include <cstdint>

namespace octet::attention {

inline constexpr float kMinusInfinity = -__builtin_inff();

// The rows of a tile so far: the score that exponents are relative to, unscaled, and this lane's part of the
// sum of exponentials.
struct RowState {
  float largest[2];
  float sum[2];
  float rescale[2];  // of what was summed before the last block

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = kMinusInfinity;
      sum[r] = 0;
      rescale[r] = 1;
    }
  }
};

// The largest of a row over the four lanes that share it, and the sum.
__device__ __forceinline__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Hides the columns outside [begin, end) of each row, counted from this lane's first column.
template <int kCount>
__device__ __forceinline__ void hide_columns(float (&s)[kCount], const std::int32_t (&begin)[2],
                                             const std::int32_t (&end)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int col = i / 4 * 8 + i % 2;
    const int r = i % 4 / 2;
    s[i] = col >= begin[r] && col < end[r] ? s[i] : kMinusInfinity;
  }
}

// Scores become exp2((s - largest) * scale). `least_growth`: of the largest, in powers of two, else it stays
// as it was.
template <int kCount>
__device__ __forceinline__ void softmax(float (&s)[kCount], float scale_log2, float least_growth,
                                        RowState& rows) {
  float largest[2][2] = {{s[0], s[1]}, {s[2], s[3]}};
#pragma unroll
  for (int i = 4; i < kCount; ++i) {
    float& x = largest[i % 4 / 2][i % 2];
    x = fmaxf(x, s[i]);
  }
  float base[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float before = rows.largest[r];
    const float found = largest_of_row(fmaxf(largest[r][0], largest[r][1]));
    const float now = (found - before) * scale_log2 > least_growth ? found : before;
    const float from = now == kMinusInfinity ? 0 : now;  // no visible key so far
    rows.rescale[r] = ptx::exp2_approx((before - from) * scale_log2);
    rows.largest[r] = now;
    rows.sum[r] *= rows.rescale[r];
    base[r] = -from * scale_log2;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = i % 4 / 2;
    s[i] = ptx::exp2_approx(fmaf(s[i], scale_log2, base[r]));
    rows.sum[r] += s[i];
  }
}

}  // namespace octet::attention
