// Registers: how many a warpgroup has, the lane's index, and values the compiler must not
// recompute.
#pragma once

#include <cstdint>

namespace octet::ptx {

// Every warp of a warpgroup calls these together: registers given back are free for the warpgroup
// that asks for more.
template <int kCount>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

__device__ __forceinline__ int lane_index() {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// A 64-bit register from two halves, without shifts.
__device__ __forceinline__ std::uint64_t join64(std::uint32_t low, std::uint32_t high) {
  std::uint64_t value;
  asm("mov.b64 %0, {%1, %2};" : "=l"(value) : "r"(low), "r"(high));
  return value;
}

// The compiler knows nothing about the value any more: it can neither recompute it nor keep what it
// derived from it before.
__device__ __forceinline__ void make_opaque(std::uint32_t& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void make_opaque(std::int32_t& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void make_opaque(std::uint32_t& a, std::uint32_t& b, int& c, int& d) {
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
}

// The pointer stays in its register: the compiler does not recompute it where it is used.
template <class T>
__device__ __forceinline__ void keep(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

}  // namespace octet::ptx
