#include "bench/workloads/fp8_tensors.hpp"

namespace octet::bench {
namespace {

std::size_t copy_bytes(Dtype format, std::int64_t rows, std::int64_t cols,
                       const std::optional<BlockShape>& block) {
  if (!block) return 0;
  const QuantizedLayout layout(rows, cols, format, *block);
  const auto values = static_cast<std::size_t>(rows * cols);
  const auto scales = static_cast<std::size_t>(layout.scale_shape[0] * layout.scale_shape[1]);
  return values + scales * sizeof(float);
}

}  // namespace

std::size_t fp8_bytes(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols) {
  return copy_bytes(fp8.format, rows, cols, fp8.block) +
         copy_bytes(fp8.format, cols, rows, fp8.transposed_block);
}

Fp8Tensors::Fp8Tensors(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols, Device device) {
  if (fp8.block) out = QuantizedTensor(rows, cols, fp8.format, *fp8.block, device);
  if (fp8.transposed_block) {
    transposed = QuantizedTensor(cols, rows, fp8.format, *fp8.transposed_block, device);
  }
}

}  // namespace octet::bench
