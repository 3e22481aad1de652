// The tensors of a workload, on its device. memory.hpp says how many sets of them rotate, so that
// an iteration never finds in the cache what the one before left there.
#pragma once

#include "bench/workloads/memory.hpp"
#include "check/gates.hpp"

#include <octet/buffer.hpp>
#include <octet/octet.hpp>

#include <cstdint>
#include <vector>

namespace octet::bench {

// Fills a matrix with random data of the seed, on its own device; synchronous.
void fill_input(const TensorView& matrix, const DataOptions& options, std::uint32_t stream);

// The inputs of a linear layer.
struct LayerInputs {
  Tensor x;   // [M, K]
  Tensor w;   // [N, K]
  Tensor dy;  // [M, N]

  static std::size_t bytes(const Fp8LinearProblem& layer, Dtype dtype);
};

// `count` sets with the same random numbers, in the layer's dtype and on its device.
std::vector<LayerInputs> make_layer_inputs(const Fp8LinearProblem& layer,
                                           const DataOptions& options, std::int64_t count);

// The results of forward and backward of a linear layer, and their workspace.
struct LayerOutputs {
  Tensor y;      // [M, N]
  Tensor dx;     // [M, K]
  Tensor dw;     // [N, K]
  Tensor dbias;  // [N], if the layer computes it
  Buffer workspace;

  LayerOutputs() = default;
  LayerOutputs(const Fp8LinearProblem& layer, std::size_t workspace_bytes);
  static std::size_t bytes(const Fp8LinearProblem& layer, std::size_t workspace_bytes);

  Workspace scratch() const { return {workspace.data(), workspace.bytes()}; }
};

// Bytes of values and scales, without padding.
std::size_t quantized_bytes(Dtype format, std::int64_t rows, std::int64_t cols, BlockShape block);
// The same of both copies of [rows, cols].
std::size_t fp8_bytes(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols);
// The same of groups of these sizes: `rows` rows are written, and the token blocks of the groups.
std::size_t grouped_fp8_bytes(const Fp8Output& fp8, const std::vector<std::int64_t>& sizes,
                              std::int64_t rows, std::int64_t cols);

// The FP8 copies an operator writes.
struct Fp8Tensors {
  QuantizedTensor out;
  QuantizedTensor transposed;

  Fp8Tensors() = default;
  Fp8Tensors(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols, Device device);
  // Of groups: the transposed copy has token blocks.
  Fp8Tensors(const Fp8Output& fp8, std::int64_t groups, std::int64_t rows, std::int64_t cols,
             Device device);
  Fp8Copies views() const { return {out, transposed}; }
};

// The tensors of q and k as rope and rms_norm_rope take them.

// Extents of the caches, with the defaults that a 0 in Rotation stands for.
template <class Problem>
std::int64_t cache_rows(const Problem& problem) {
  return problem.rotation.cache_rows != 0 ? problem.rotation.cache_rows : problem.seq;
}
template <class Problem>
std::int64_t cache_cols(const Problem& problem) {
  const std::int64_t rotary =
      problem.rotation.rotary_dim != 0 ? problem.rotation.rotary_dim : problem.head_dim;
  return problem.rotation.full_cache ? rotary : rotary / 2;
}

struct RotationTensors {
  Tensor cos, sin, positions;

  RotationArgs args() const { return {cos, sin, positions}; }
};

// Bytes of caches and positions.
template <class Problem>
std::size_t rotation_bytes(const Problem& problem) {
  const std::size_t cache =
      tensor_bytes(problem.rotation.cache_dtype, {cache_rows(problem), cache_cols(problem)});
  const std::size_t positions =
      problem.rotation.positions_dtype
          ? tensor_bytes(*problem.rotation.positions_dtype, {problem.batch, problem.seq})
          : 0;
  return 2 * cache + positions;
}

// Bytes of q and k.
template <class Problem>
std::size_t heads_bytes(const Problem& problem) {
  return tensor_bytes(problem.dtype, {problem.batch, problem.seq, problem.q_heads + problem.k_heads,
                                      problem.head_dim});
}

// A matrix [batch * seq, heads * head_dim] as [batch, seq, heads, head_dim]; an empty view for an
// empty tensor.
template <class Problem>
TensorView as_heads(const Tensor& matrix, const Problem& problem) {
  const TensorView& view = matrix.view();
  if (view.data == nullptr) return {};
  return make_view(view.data, view.dtype,
                   {problem.batch, problem.seq, view.cols() / problem.head_dim, problem.head_dim},
                   view.device);
}

// The position of every token in its sequence: [batch, seq] of i32 or i64.
Tensor make_positions(Dtype dtype, std::int64_t batch, std::int64_t seq, Device device);

}  // namespace octet::bench
