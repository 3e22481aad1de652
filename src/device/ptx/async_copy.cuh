// Copies of 16 bytes from global to shared memory that need no registers while they are under way.
#pragma once

#include <cstdint>

namespace octet::ptx {

// Both addresses aligned to 16 bytes; past the first-level cache.
__device__ __forceinline__ void copy_16_bytes(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// This thread's copies have arrived, for this thread to see.
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace octet::ptx
