// Copies of 16 bytes from global to shared memory that need no registers while in flight.
#pragma once

#include <cstdint>

namespace octet::ptx {

// Both addresses are aligned to 16 bytes. Bypasses the L1 cache.
__device__ __forceinline__ void copy_16_bytes(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Returns once this thread's copies have arrived and are visible to this thread.
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace octet::ptx
