// Stores to global memory under a predicate instead of a branch: many follow each other, and a branch around
// each costs more than the store.
#pragma once

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ void store_global_if(bool condition, std::uint16_t* to,
                                                std::uint16_t half) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.b16 [%1], %2;}" ::"r"(
                   static_cast<std::uint32_t>(condition)),
               "l"(to), "h"(half)
               : "memory");
}

__device__ __forceinline__ void store_global_if(bool condition, std::uint16_t* to, std::uint32_t x,
                                                std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.v4.b32 [%1], {%2, %3, %4, %5};}" ::"r"(
          static_cast<std::uint32_t>(condition)),
      "l"(to), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

}  // namespace octet::ptx
