// Loads and stores of global memory with a cache hint, a memory order or a predicate.
#pragma once

#include <cstdint>

namespace octet::ptx {

// 16 bytes that do not enter the L1 cache.
__device__ __forceinline__ uint4 load_global_past_l1(const void* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// Policies for the L2 cache: lines to keep longest, and lines to drop first.
__device__ __forceinline__ std::uint64_t evict_last_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ uint4 load_global(const void* from, std::uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy));
  return v;
}
__device__ __forceinline__ void store_global(void* to, uint2 v, std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(v.x), "r"(v.y),
               "l"(policy)
               : "memory");
}
__device__ __forceinline__ void store_global(void* to, uint4 v, std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy)
               : "memory");
}

// Flags between blocks: neither torn nor cached in L1, but without an order to other accesses.
// fence_gpu() gives the order.
__device__ __forceinline__ float load_relaxed(const float* from) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ void store_relaxed(float* to, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Under a predicate instead of a branch: many of these stores follow each other, and a branch
// around each costs more than the store.
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
