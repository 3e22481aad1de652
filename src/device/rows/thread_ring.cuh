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

template <Dtype kDtype, int kEights, int kStages>  // eights of a stage
struct ThreadRing {
  static constexpr int kVectors = Eight<kDtype>::kWords / 4;  // of an eight
  static constexpr int kStageVectors = kEights * kVectors;

  std::uint32_t address;  // of this thread's first vector in the first stage
  std::uint32_t step;     // bytes to the next
  int stage = 0;          // in use

  static constexpr std::uint32_t kBytesPerThread = kStages * kStageVectors * 16;
  static constexpr std::size_t bytes(int threads) {
    return static_cast<std::size_t>(threads) * kBytesPerThread;
  }

  __device__ explicit ThreadRing(const void* storage)
      : address(ptx::shared_address(storage) + 16 * threadIdx.x), step(16 * blockDim.x) {
    ptx::keep(address);
  }

  // The stage `ahead` after the one in use.
  __device__ __forceinline__ int stage_after(int ahead) const {
    const int result = stage + ahead;
    return result < kStages ? result : result - kStages;
  }
  __device__ __forceinline__ void advance() { stage = stage_after(1); }
  __device__ __forceinline__ std::uint32_t address_of(int of_stage, int eight) const {
    return address + static_cast<std::uint32_t>(of_stage * kStageVectors + eight * kVectors) * step;
  }

  // Copies an eight, whose address is a multiple of 16, into a stage.
  __device__ __forceinline__ void copy(int to_stage, int eight, const void* from) const {
    const std::uint32_t to = address_of(to_stage, eight);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      ptx::copy_16_bytes(to + v * step, static_cast<const char*>(from) + 16 * v);
    }
  }
  // The same from any address, through registers.
  __device__ __forceinline__ void copy_singly(int to_stage, int eight, const void* from) const {
    const std::uint32_t to = address_of(to_stage, eight);
    const Eight<kDtype> values = load_singly<kDtype>(from, kEight);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      ptx::store_shared(to + v * step, values.words[4 * v], values.words[4 * v + 1],
                        values.words[4 * v + 2], values.words[4 * v + 3]);
    }
  }
  // Call once per stage, after its copies.
  __device__ __forceinline__ void commit() const { ptx::commit_copies(); }
  // Returns once all stages have arrived but the kLast that were filled last.
  template <int kLast>
  __device__ __forceinline__ void wait_but() const {
    ptx::wait_copies_but<kLast>();
  }

  // From the stage in use.
  __device__ __forceinline__ Eight<kDtype> load(int eight) const {
    const std::uint32_t from = address_of(stage, eight);
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
