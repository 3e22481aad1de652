// An inclusive scan over the 1024 threads of a block: each gets what its own value and those of all
// threads before it join to.
#pragma once

#include <cstdint>

namespace octet::sm90 {

inline constexpr int kScanThreads = 1024;
inline constexpr int kScanWarps = kScanThreads / 32;

template <class Join>
__device__ __forceinline__ std::uint32_t scan_lanes(std::uint32_t value, const Join& join) {
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint32_t before = __shfl_up_sync(~0u, value, step);
    if (threadIdx.x % 32 >= step) value = join(before, value);
  }
  return value;
}

// All threads of the block call it. `totals` is free again when it returns.
template <class Join>
__device__ __forceinline__ std::uint32_t scan_block(std::uint32_t value, const Join& join,
                                                    std::uint32_t (&totals)[kScanWarps]) {
  const unsigned warp = threadIdx.x / 32;
  value = scan_lanes(value, join);
  if (threadIdx.x % 32 == 31) totals[warp] = value;
  __syncthreads();
  if (warp == 0) totals[threadIdx.x] = scan_lanes(totals[threadIdx.x], join);
  __syncthreads();
  if (warp > 0) value = join(totals[warp - 1], value);
  __syncthreads();
  return value;
}

__device__ __forceinline__ std::uint32_t scan_sums(std::uint32_t value,
                                                   std::uint32_t (&totals)[kScanWarps]) {
  return scan_block(
      value, [](std::uint32_t a, std::uint32_t b) { return a + b; }, totals);
}

}  // namespace octet::sm90
