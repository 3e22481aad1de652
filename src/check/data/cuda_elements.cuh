// Loops over the elements of a matrix: for_each_element calls a function, tally counts and finds a
// maximum. Written to be simple, not fast; all indices have 64 bits.
#pragma once

#include "device/cuda/launch.hpp"

#include <octet/buffer.hpp>

#include <algorithm>
#include <cstdint>

namespace octet::cuda {

inline constexpr int kThreads = 256;

inline int blocks_for(std::int64_t elements) {
  constexpr std::int64_t kMostBlocks = 4096;  // each thread takes many elements of a large matrix
  return static_cast<int>(
      std::clamp<std::int64_t>((elements + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <class Visit>
__global__ void visit_elements(std::int64_t rows, std::int64_t cols, Visit visit) {
  for (std::int64_t i = first_element(); i < rows * cols; i += element_step()) {
    visit(i / cols, i % cols);
  }
}

// Calls visit(row, col) for every element.
template <class Visit>
void for_each_element(Device device, std::int64_t rows, std::int64_t cols, const Visit& visit) {
  const DeviceScope scope(device.index);
  visit_elements<<<blocks_for(rows * cols), kThreads>>>(rows, cols, visit);
  check(cudaGetLastError(), "launch of a loop over elements");
  check(cudaDeviceSynchronize(), "a loop over elements");
}

struct Tally {
  unsigned long long count = 0;
  unsigned long long largest = 0;
};

template <class Measure>
__global__ void tally_elements(std::int64_t rows, std::int64_t cols, Measure measure,
                               Tally* total) {
  Tally mine;
  for (std::int64_t i = first_element(); i < rows * cols; i += element_step()) {
    const Tally found = measure(i / cols, i % cols);
    mine.count += found.count;
    mine.largest = max(mine.largest, found.largest);
  }
  if (mine.count != 0) atomicAdd(&total->count, mine.count);
  if (mine.largest != 0) atomicMax(&total->largest, mine.largest);
}

// Calls measure(row, col) for every element; returns the sum of the counts and the maximum.
template <class Measure>
Tally tally(Device device, std::int64_t rows, std::int64_t cols, const Measure& measure) {
  const Buffer total(sizeof(Tally), device);
  const DeviceScope scope(device.index);
  tally_elements<<<blocks_for(rows * cols), kThreads>>>(rows, cols, measure,
                                                        static_cast<Tally*>(total.data()));
  check(cudaGetLastError(), "launch of a count of elements");
  Tally result;
  check(cudaMemcpy(&result, total.data(), sizeof result, cudaMemcpyDefault), "a count of elements");
  return result;
}

}  // namespace octet::cuda
