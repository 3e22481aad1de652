// Shared memory by address: loads and stores, in the order they are written, and asynchronous
// copies into it.
#pragma once

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ float load_shared(std::uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from));
  return value;
}

__device__ __forceinline__ void load_shared(std::uint32_t from, float& x, float& y) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(from));
}

__device__ __forceinline__ void load_shared(std::uint32_t from, float& x, float& y, float& z,
                                            float& w) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
               : "r"(from));
}

__device__ __forceinline__ std::uint16_t load_shared_half(std::uint32_t from) {
  std::uint16_t half;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(half) : "r"(from));
  return half;
}

__device__ __forceinline__ std::uint32_t load_shared_word(std::uint32_t from) {
  std::uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from));
  return word;
}

__device__ __forceinline__ void load_shared(std::uint32_t from, std::uint32_t& x, std::uint32_t& y,
                                            std::uint32_t& z, std::uint32_t& w) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
               : "r"(from));
}

// A word that another thread of the block or cluster may write meanwhile.
__device__ __forceinline__ std::uint32_t load_shared_changing(std::uint32_t from) {
  std::uint32_t word;
  asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t x, std::uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t x, std::uint32_t y,
                                             std::uint32_t z, std::uint32_t w) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(std::uint32_t to, const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// The same with each matrix transposed: what a lane holds of row r goes to column r.
__device__ __forceinline__ void store_matrices_transposed(std::uint32_t to,
                                                          const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Copies 16 bytes of global memory without a register while in flight. Both addresses are aligned
// to 16 bytes. Bypasses the L1 cache.
__device__ __forceinline__ void copy_16_bytes(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The same, or zeros: then nothing is read.
__device__ __forceinline__ void copy_16_bytes_or_zeros(std::uint32_t to, const void* from,
                                                       bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}

// One word, or a zero: then nothing is read.
__device__ __forceinline__ void copy_word_or_zero(std::uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
}

// Closes a group of this thread's copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Returns once all but the last kLast groups have arrived and are visible to this thread.
template <int kLast>
__device__ __forceinline__ void wait_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLast) : "memory");
}

// Returns once this thread's copies have arrived and are visible to this thread.
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace octet::ptx
