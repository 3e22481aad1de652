// For launchers of row kernels: tensor views as the kernels take them, whether their rows allow
// vectors of 16 bytes, and the last step of a sum over rows.
#pragma once

#include "core/checks.hpp"
#include "device/rows/eight.cuh"

#include <octet/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>

namespace octet::cuda {

inline sm90::Matrix matrix_of(const TensorView& view) {
  return {view.data, view.data == nullptr ? 0 : view.strides[0]};
}

// The base, and in a matrix every row, starts on a 16-byte boundary.
inline bool is_aligned16(const TensorView& view) {
  if (view.data == nullptr) return true;
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const std::int64_t row_bytes =
      view.rank == 2 && view.rows() > 1 ? view.strides[0] * size_bytes(view.dtype) : 0;
  return address % 16 == 0 && row_bytes % 16 == 0;
}

inline bool are_aligned16(std::initializer_list<TensorView> views) {
  bool result = true;
  for (const TensorView& view : views) result = result && is_aligned16(view);
  return result;
}

// log2 of the smallest power of two that is at least `value`.
constexpr int log2_up(std::int64_t value) {
  int result = 0;
  while ((std::int64_t{1} << result) < value) ++result;
  return result;
}

// One line of partial sums per block.
inline constexpr int kPartialSumWarps = 32;  // each adds every 32nd line
struct PartialSums {
  const float* partials;  // [count, cols]
  std::int64_t count;
  std::int64_t cols;
  void* out;                // [cols]
  Dtype dtype;              // of out: f32, f16 or bf16
  bool accumulate = false;  // out += the sum
};

// Adds the lines of partial sums of one or two tensors, in a fixed order (partial_sums.cu). Queues
// the kernel on a stream of the current device. Throws Error where the launch fails.
void add_partial_sums(std::span<const PartialSums> sums, void* stream);

}  // namespace octet::cuda
