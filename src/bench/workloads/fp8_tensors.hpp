// The FP8 copies an operator writes, as a workload needs them.
#pragma once

#include <octet/ops/fp8_output.hpp>

namespace octet::bench {

// Values and scales of both copies of [rows, cols], as their logical extents have them.
std::size_t fp8_bytes(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols);

struct Fp8Tensors {
  QuantizedTensor out;
  QuantizedTensor transposed;

  Fp8Tensors() = default;
  Fp8Tensors(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols, Device device);
  Fp8Copies views() const { return {out, transposed}; }
};

}  // namespace octet::bench
