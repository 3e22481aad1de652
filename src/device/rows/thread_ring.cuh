// A ring in shared memory that belongs to one thread: it copies vectors of 16 bytes ahead of their
// use, and reads back only what it has copied itself. So no barrier is needed, the warps of a block
// do not wait for each other, and the bytes in flight do not depend on registers.
//
// The vectors of neighbouring threads are side by side, which keeps banks free of conflicts.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/rows/eight.cuh"

namespace octet::sm90 {

template <Dtype kDtype, int kEights>  // eights of a stage
struct ThreadRing {
  static constexpr int kVectors = Eight<kDtype>::kWords / 4;  // of an eight
  static constexpr int kStageVectors = kEights * kVectors;
  static constexpr int kStages = 2;

  std::uint32_t address;  // of this thread's first vector in the stage in use
  std::uint32_t step;     // bytes to the next
  std::uint32_t other;    // bytes from the stage in use to the other one

  static constexpr std::size_t bytes(int threads) {
    return static_cast<std::size_t>(kStages * kStageVectors * threads) * 16;
  }

  __device__ explicit ThreadRing(const void* storage)
      : address(ptx::shared_address(storage) + 16 * threadIdx.x),
        step(16 * blockDim.x),
        other(kStageVectors * step) {}

  __device__ __forceinline__ void advance() {
    address += other;
    other = 0u - other;
  }

  // Copies an eight, whose address is a multiple of 16, into the stage in use.
  __device__ __forceinline__ void copy(int eight, const void* from) const {
    const std::uint32_t to = address + eight * kVectors * step;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      ptx::copy_16_bytes(to + v * step, static_cast<const char*>(from) + 16 * v);
    }
  }
  // The same from any address, through registers.
  __device__ __forceinline__ void copy_singly(int eight, const void* from) const {
    const std::uint32_t to = address + eight * kVectors * step;
    const Eight<kDtype> values = load_singly<kDtype>(from, kEight);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      ptx::store_shared(to + v * step, values.words[4 * v], values.words[4 * v + 1],
                        values.words[4 * v + 2], values.words[4 * v + 3]);
    }
  }
  // Call once per stage, after its copies.
  __device__ __forceinline__ void commit() const { ptx::commit_copies(); }
  // Returns once the stage in use has arrived; the copies of the next one stay in flight.
  __device__ __forceinline__ void wait() const { ptx::wait_copies_but<kStages - 1>(); }

  __device__ __forceinline__ Eight<kDtype> load(int eight) const {
    const std::uint32_t from = address + eight * kVectors * step;
    Eight<kDtype> result;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      ptx::load_shared(from + v * step, result.words[4 * v], result.words[4 * v + 1],
                       result.words[4 * v + 2], result.words[4 * v + 3]);
    }
    return result;
  }
};

}  // namespace octet::sm90
