// Which outputs are stored past the caches (non-temporal stores).
#pragma once

#include <octet/tensor.hpp>

#include <cstdint>

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

}  // namespace octet
