// Sums over a row as balanced trees of neighbours: s[i] = s[2i] + s[2i + 1] until one is left. The
// threads of a row hold eight neighbouring elements each and lie side by side, so a tree is: the
// eight, the lanes of a warp, and the sums of the warps.
#pragma once

#include "device/rows/eight.cuh"

namespace octet::sm90 {

__device__ __forceinline__ float sum_of_eight(const float (&terms)[kEight]) {
  const float a = __fadd_rn(__fadd_rn(terms[0], terms[1]), __fadd_rn(terms[2], terms[3]));
  const float b = __fadd_rn(__fadd_rn(terms[4], terms[5]), __fadd_rn(terms[6], terms[7]));
  return __fadd_rn(a, b);
}

// Over groups of `kLanes` neighbouring lanes, in each of them.
template <int kLanes = 32>
__device__ __forceinline__ float sum_of_lanes(float value) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(~0u, value, step));
  }
  return value;
}

// Over `count` sums in shared memory, a power of two up to 128, in every lane of the warp; a zero is
// added at the end, so that no sum is -0.
__device__ __forceinline__ float sum_of_warps(const float* sums, int count) {
  const int lane = threadIdx.x % 32;
  if (count <= 32) return __fadd_rn(sum_of_lanes(lane < count ? sums[lane] : 0.0f), 0.0f);
  const int each = count / 32;  // 2 or 4
  float value = __fadd_rn(sums[lane * each], sums[lane * each + 1]);
  if (each == 4) value = __fadd_rn(value, __fadd_rn(sums[lane * 4 + 2], sums[lane * 4 + 3]));
  return __fadd_rn(sum_of_lanes(value), 0.0f);
}

}  // namespace octet::sm90
