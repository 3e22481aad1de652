#include "bench/workloads/tensors.hpp"

#include "core/checks.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

namespace octet::bench {
namespace {

LayerInputs allocate(const Fp8LinearProblem& layer) {
  return {Tensor(layer.dtype, {layer.m, layer.k}, layer.device),
          Tensor(layer.dtype, {layer.n, layer.k}, layer.device),
          Tensor(layer.dtype, {layer.m, layer.n}, layer.device)};
}

void copy(const Tensor& from, const Tensor& to) {
  copy_bytes(to.data(), from.data(), from.bytes(), from.view().device);
}

std::size_t bytes_of_copy(Dtype format, std::int64_t rows, std::int64_t cols,
                          const std::optional<BlockShape>& block) {
  return block ? quantized_bytes(format, rows, cols, *block) : 0;
}

}  // namespace

void fill_input(const TensorView& matrix, const DataOptions& options, std::uint32_t stream) {
  fill_random(matrix, options.distribution, {options.seed, stream},
              this_machine(kCpu, options.threads).threads);
  if (matrix.device.type == DeviceType::cuda) cuda::synchronize(matrix.device.index);
}

std::size_t LayerInputs::bytes(const Fp8LinearProblem& layer, Dtype dtype) {
  return tensor_bytes(dtype, {layer.m, layer.k}) + tensor_bytes(dtype, {layer.n, layer.k}) +
         tensor_bytes(dtype, {layer.m, layer.n});
}

std::vector<LayerInputs> make_layer_inputs(const Fp8LinearProblem& layer,
                                           const DataOptions& options, std::int64_t count) {
  std::vector<LayerInputs> sets;
  sets.reserve(static_cast<std::size_t>(count));
  sets.push_back(allocate(layer));
  fill_input(sets[0].x, options, 0);
  fill_input(sets[0].w, options, 1);
  fill_input(sets[0].dy, options, 2);
  while (static_cast<std::int64_t>(sets.size()) < count) {
    sets.push_back(allocate(layer));
    copy(sets[0].x, sets.back().x);
    copy(sets[0].w, sets.back().w);
    copy(sets[0].dy, sets.back().dy);
  }
  return sets;
}

LayerOutputs::LayerOutputs(const Fp8LinearProblem& layer, std::size_t workspace_bytes)
    : y(layer.dtype, {layer.m, layer.n}, layer.device),
      dx(layer.dtype, {layer.m, layer.k}, layer.device),
      dw(layer.dw_dtype, {layer.n, layer.k}, layer.device),
      workspace(workspace_bytes, layer.device) {
  if (layer.dbias_dtype) dbias = Tensor(*layer.dbias_dtype, {layer.n}, layer.device);
}

std::size_t LayerOutputs::bytes(const Fp8LinearProblem& layer, std::size_t workspace_bytes) {
  return tensor_bytes(layer.dtype, {layer.m, layer.n}) +
         tensor_bytes(layer.dtype, {layer.m, layer.k}) +
         tensor_bytes(layer.dw_dtype, {layer.n, layer.k}) +
         (layer.dbias_dtype ? tensor_bytes(*layer.dbias_dtype, {layer.n}) : 0) + workspace_bytes;
}

std::size_t quantized_bytes(Dtype format, std::int64_t rows, std::int64_t cols, BlockShape block) {
  const QuantizedLayout layout(rows, cols, format, block);
  return tensor_bytes(format, {rows, cols}) +
         tensor_bytes(scale_dtype(block), {layout.scale_shape[0], layout.scale_shape[1]});
}

std::size_t fp8_bytes(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols) {
  return bytes_of_copy(fp8.format, rows, cols, fp8.block) +
         bytes_of_copy(fp8.format, cols, rows, fp8.transposed_block);
}

Fp8Tensors::Fp8Tensors(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols, Device device) {
  if (fp8.block) out = QuantizedTensor(rows, cols, fp8.format, *fp8.block, device);
  if (fp8.transposed_block) {
    transposed = QuantizedTensor(cols, rows, fp8.format, *fp8.transposed_block, device);
  }
}

std::size_t grouped_fp8_bytes(const Fp8Output& fp8, const std::vector<std::int64_t>& sizes,
                              std::int64_t rows, std::int64_t cols) {
  std::int64_t blocks = 0;
  for (const std::int64_t size : sizes) blocks += ceil_div(size, kBlock);
  std::size_t bytes = 0;
  if (rows > 0) bytes += bytes_of_copy(fp8.format, rows, cols, fp8.block);
  if (blocks > 0) {
    bytes += bytes_of_copy(fp8.format, cols, blocks * kBlock, fp8.transposed_block);
  }
  return bytes;
}

Fp8Tensors::Fp8Tensors(const Fp8Output& fp8, std::int64_t groups, std::int64_t rows,
                       std::int64_t cols, Device device) {
  if (fp8.block) out = QuantizedTensor(rows, cols, fp8.format, *fp8.block, device);
  if (!fp8.transposed_block) return;
  transposed =
      QuantizedTensor(QuantizedBatchLayout::token_blocks(max_token_blocks(groups, rows), cols,
                                                         fp8.format, *fp8.transposed_block),
                      device);
}

Tensor make_positions(Dtype dtype, std::int64_t batch, std::int64_t seq, Device device) {
  Tensor positions(dtype, {batch, seq}, device);
  const auto fill = [&](auto zero) {
    std::vector<decltype(zero)> values(static_cast<std::size_t>(batch * seq));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<decltype(zero)>(static_cast<std::int64_t>(i) % seq);
    }
    copy_bytes(positions.data(), values.data(), positions.bytes(), device);
  };
  if (dtype == Dtype::i64) {
    fill(std::int64_t{0});
  } else {
    fill(std::int32_t{0});
  }
  return positions;
}

}  // namespace octet::bench
