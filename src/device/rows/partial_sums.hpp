// The last step of a sum over rows: adds one line of partial sums per block, in a fixed order.
#pragma once

#include <octet/dtype.hpp>

#include <cstdint>

namespace octet::cuda {

struct PartialSums {
  const float* partials;  // [count, cols]
  std::int64_t count;
  std::int64_t cols;
  void* out;    // [cols]
  Dtype dtype;  // of out: f32, f16 or bf16
};

// Queues the kernel on a stream of the current device. Throws Error where the launch fails.
void add_partial_sums(const PartialSums& sums, void* stream);

}  // namespace octet::cuda
