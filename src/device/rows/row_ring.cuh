// A ring of rows in shared memory, which the bulk copy engine fills ahead of the threads that use
// them: the bytes in flight do not depend on registers.
//
// A block takes rows blockIdx.x, blockIdx.x + gridDim.x and so on. Every thread calls wait() before
// it reads a row. One thread calls fill() once all threads are done with the previous row of that
// stage.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/rows/eight.cuh"

namespace octet::sm90 {

inline constexpr int kRingMaxStages = 16;

// The stage of the next row, and the parity of its barrier, which flips with every round of the
// ring.
struct RingCursor {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

struct RowRing {
  const Matrix* operands;  // a stage holds the same row of each
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

  // Called by one thread; the block synchronizes afterwards.
  __device__ void init() const {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) ptx::barrier_init(barrier(s), 1);
    ptx::fence_barrier_init();
  }

  // Called by one thread.
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

  __device__ __forceinline__ void wait(const RingCursor& cursor) const {
    ptx::barrier_wait(barrier(cursor.stage), cursor.parity);
  }
};

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_shared_eight(std::uint32_t from) {
  return load_vectors<kDtype>([from](int offset) {
    uint4 v;
    ptx::load_shared(from + static_cast<std::uint32_t>(offset), v.x, v.y, v.z, v.w);
    return v;
  });
}

}  // namespace octet::sm90
