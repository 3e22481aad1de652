// Two f32 results as 16-bit elements in a word.
#pragma once

#include <octet/dtype.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

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

}  // namespace octet::sm90
