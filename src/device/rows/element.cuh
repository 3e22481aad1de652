// One element of a tensor whose dtype is known only at run time: f32, f16 or bf16.
#pragma once

#include "core/numeric.hpp"
#include "device/ptx/arithmetic.cuh"

#include <cstdint>

namespace octet::sm90 {

__device__ __forceinline__ float load_element(const void* from, std::int64_t i, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return f32_from_bf16(static_cast<const std::uint16_t*>(from)[i]);
    case Dtype::f16: return ptx::f32_from_f16_bits(static_cast<const std::uint16_t*>(from)[i]);
    default: return static_cast<const float*>(from)[i];
  }
}

__device__ __forceinline__ void store_element(void* to, std::int64_t i, Dtype dtype, float value) {
  if (dtype == Dtype::f32) {
    static_cast<float*>(to)[i] = value;
    return;
  }
  const std::uint32_t pair =
      dtype == Dtype::bf16 ? ptx::bf16x2_from_f32(value, 0) : ptx::f16x2_from_f32(value, 0);
  static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(pair);
}

}  // namespace octet::sm90
