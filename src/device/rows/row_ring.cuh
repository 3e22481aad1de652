// Rows on their way: a ring of shared memory that the bulk copy engine fills with rows ahead of the
// threads that work on them, so that what is in flight does not depend on registers.
//
// A block takes rows blockIdx.x, blockIdx.x + gridDim.x and so on. Every thread calls wait() for a row
// before it reads it; one thread calls fill() once all have done with what was in its place.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/rows/eight.cuh"

namespace octet::sm90 {

inline constexpr int kRingMostStages = 16;

// Where the next row of a ring is; the parity is that of the rounds.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void step(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

struct RowRing {
  const Matrix* operands;  // matrices of the same rows
  int operand_count;
  std::uint32_t row_bytes;  // a multiple of 16
  int stages;
  std::uint32_t storage;   // stages x operand_count rows
  std::uint32_t barriers;  // one per stage

  __device__ __forceinline__ std::uint32_t row_address(int stage, int operand) const {
    return storage + static_cast<std::uint32_t>(stage * operand_count + operand) * row_bytes;
  }
  __device__ __forceinline__ std::uint32_t barrier(int stage) const {
    return barriers + 8u * static_cast<std::uint32_t>(stage);
  }

  // By one thread, before the others pass a barrier of the block.
  __device__ void init() const {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) ptx::barrier_init(barrier(s), 1);
    ptx::fence_barrier_init();
  }

  // By one thread.
  template <int kElementSize>
  __device__ __forceinline__ void fill(int stage, std::int64_t row) const {
    ptx::barrier_expect_bytes(barrier(stage),
                              static_cast<std::uint32_t>(operand_count) * row_bytes);
#pragma unroll 1
    for (int i = 0; i < operand_count; ++i) {
      const char* from =
          static_cast<const char*>(operands[i].data) + row * operands[i].pitch * kElementSize;
      ptx::load_bytes(row_address(stage, i), from, row_bytes, barrier(stage));
    }
  }

  __device__ __forceinline__ void wait(const RingPlace& place) const {
    ptx::barrier_wait(barrier(place.stage), place.parity);
  }
};

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_shared_eight(std::uint32_t from) {
  return load_vectors<kDtype>([from](int offset) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from + static_cast<std::uint32_t>(offset)));
    return v;
  });
}

}  // namespace octet::sm90
