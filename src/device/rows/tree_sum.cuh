// Sums over a row as balanced trees of neighbours: s[i] = s[2i] + s[2i + 1] until one is left.
// Neighbouring threads hold eight neighbouring elements each, so the levels of the tree are: the
// eight elements of a thread, the lanes of a warp, and the sums of the warps.
#pragma once

#include "device/rows/eight.cuh"
#include "device/rows/lane_sums.hpp"

namespace octet::sm90 {

__device__ __forceinline__ float sum_of_eight(const float (&terms)[kEight]) {
  const float a = __fadd_rn(__fadd_rn(terms[0], terms[1]), __fadd_rn(terms[2], terms[3]));
  const float b = __fadd_rn(__fadd_rn(terms[4], terms[5]), __fadd_rn(terms[6], terms[7]));
  return __fadd_rn(a, b);
}

// Over groups of `kLanes` neighbouring lanes; every lane gets the sum of its group.
template <int kLanes = 32>
__device__ __forceinline__ float sum_of_lanes(float value) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(~0u, value, step));
  }
  return value;
}

// The sums over a warp, or over groups of `kLanes`, of kCount values per lane, a power of two, by
// the same tree. In each of the first steps a lane hands half of its values to its partner, until it
// is left with one sum: that of value value_of_lane(lane, kCount).
template <int kCount, int kLanes = 32>
__device__ __forceinline__ float sums_of_lanes(float (&values)[kCount]) {
  int step = 1;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = upper ? values[i] : values[i + half];
      const float kept = upper ? values[i + half] : values[i];
      values[i] = __fadd_rn(kept, __shfl_xor_sync(~0u, given, step));
    }
    step *= 2;
  }
#pragma unroll
  for (; step < kLanes; step *= 2) {
    values[0] = __fadd_rn(values[0], __shfl_xor_sync(~0u, values[0], step));
  }
  return values[0];
}

// Over `count` sums in shared memory, a power of two up to 128; every lane of the warp gets the
// result. Adding a zero at the end turns -0 into 0.
__device__ __forceinline__ float sum_of_warps(const float* sums, int count) {
  const int lane = threadIdx.x % 32;
  if (count <= 32) return __fadd_rn(sum_of_lanes(lane < count ? sums[lane] : 0.0f), 0.0f);
  const int each = count / 32;  // 2 or 4
  float value = __fadd_rn(sums[lane * each], sums[lane * each + 1]);
  if (each == 4) value = __fadd_rn(value, __fadd_rn(sums[lane * 4 + 2], sums[lane * 4 + 3]));
  return __fadd_rn(sum_of_lanes(value), 0.0f);
}

}  // namespace octet::sm90
