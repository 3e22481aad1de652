// Two FP8 values of one register to f16, which has every value of both formats. A NaN becomes 0x7FFF.
#pragma once

#include <octet/dtype.hpp>

#include <cstdint>

namespace octet::ptx {

template <Dtype kFormat>
__device__ __forceinline__ std::uint32_t f16x2_from_fp8x2(std::uint16_t pair) {
  std::uint32_t halves;
  if constexpr (kFormat == Dtype::e5m2) {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  } else {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  }
  return halves;
}

}  // namespace octet::ptx
