// Pairs of FP8 values as pairs of f16, which hold every value of both formats, and back.
#pragma once

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ std::uint32_t halves_from_e4m3x2(std::uint16_t pair) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
}
__device__ __forceinline__ std::uint32_t halves_from_e5m2x2(std::uint16_t pair) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
}

// These saturate: infinities become the largest finite value, NaN becomes 0x7F.
__device__ __forceinline__ std::uint16_t e4m3x2_from_halves(std::uint32_t halves) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(pair) : "r"(halves));
  return pair;
}
__device__ __forceinline__ std::uint16_t e5m2x2_from_halves(std::uint32_t halves) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(pair) : "r"(halves));
  return pair;
}

__device__ __forceinline__ std::uint32_t multiply_halves(std::uint32_t x, std::uint32_t y) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

}  // namespace octet::ptx
