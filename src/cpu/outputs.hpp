// How outputs are stored: which ones past the caches (non-temporal stores), and the padding of
// quantised ones.
#pragma once

#include "core/footprint.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace octet {

inline constexpr std::int64_t kCacheLine = 64;  // bytes

// Outputs of this size or more do not stay in the caches anyway. One thread of a 2.8 GHz Xeon with
// AVX-512: dual quantize of bf16 4096x4096 reaches 7.8 GB/s with non-temporal stores and 4.6 GB/s
// without; rms_norm forward of bf16 1024x4096 reaches 12.0 and 10.0 GB/s.
inline constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;

// Whether a tensor is large and all of its rows start on cache lines.
inline bool streams(const TensorView& out) {
  const std::int64_t element_bytes = size_bytes(out.dtype);
  std::int64_t bytes = element_bytes;
  bool on_lines = reinterpret_cast<std::uintptr_t>(out.data) % kCacheLine == 0;
  for (int i = 0; i < out.rank; ++i) {
    bytes *= out.shape[i];
    if (i < out.rank - 1 && out.shape[i] > 1) {
      on_lines = on_lines && out.strides[i] * element_bytes % kCacheLine == 0;
    }
  }
  return on_lines && bytes >= kStreamBytes;
}

// Fills the gap behind every line of a view, [rows, cols] or [batch, rows, cols].
template <class Element>
void fill_gaps(const TensorView& view, LineDimensions lines, Element value) {
  const std::int64_t length = view.shape[lines.along];
  const std::int64_t pitch = view.strides[lines.across];
  if (length >= pitch) return;
  const int other = 3 - lines.along - lines.across;  // the third dimension of a batch
  const std::int64_t others = view.rank == 3 ? view.shape[other] : 1;
  for (std::int64_t i = 0; i < others; ++i) {
    auto* first = static_cast<Element*>(view.data) + i * (view.rank == 3 ? view.strides[other] : 0);
    for (std::int64_t line = 0; line < view.shape[lines.across]; ++line) {
      std::fill(first + line * pitch + length, first + (line + 1) * pitch, value);
    }
  }
}

// Clears the padding of a view that owns it: values to 0, scales to 1. Skips other views.
inline void clear_padding(const QuantizedView& view) {
  if (!view.owns_padding) return;
  fill_gaps(view.values, value_lines(view.values), std::uint8_t{0});
  if (view.scales.dtype == Dtype::ue8m0) {
    fill_gaps(view.scales, scale_lines(view.scales), std::uint8_t{127});  // 2^0
  } else {
    fill_gaps(view.scales, scale_lines(view.scales), 1.0f);
  }
}

// Clears the rows of a matrix from `first` on.
inline void clear_rows(const TensorView& matrix, std::int64_t first, int threads) {
  const std::int64_t element_bytes = size_bytes(matrix.dtype);
  parallel_for(threads, matrix.rows() - first, [&](std::int64_t row) {
    std::memset(static_cast<char*>(matrix.data) + (first + row) * matrix.strides[0] * element_bytes,
                0, static_cast<std::size_t>(matrix.cols() * element_bytes));
  });
}

// The same for a matrix of 1x128 blocks: values to 0, scales to 1.
inline void clear_rows(const QuantizedView& view, std::int64_t first, int threads) {
  const TensorView& values = view.values;
  const TensorView& scales = view.scales;
  const std::int64_t runs = (values.rows() - first + kBlock - 1) / kBlock;
  parallel_for(threads, runs, [&](std::int64_t run) {
    const std::int64_t begin = first + run * kBlock;
    for (std::int64_t r = begin; r < std::min(begin + kBlock, values.rows()); ++r) {
      std::fill_n(static_cast<std::uint8_t*>(values.data) + r * values.strides[0], values.cols(),
                  std::uint8_t{0});
      auto* scale = static_cast<float*>(scales.data) + r * scales.strides[0];
      for (std::int64_t c = 0; c < scales.cols(); ++c) scale[c * scales.strides[1]] = 1;
    }
  });
}

}  // namespace octet
