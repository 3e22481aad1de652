// The tensors of q and k as rope and rms_norm_rope take them.
#pragma once

#include "bench/workloads/memory.hpp"

#include <octet/ops/rope.hpp>

#include <vector>

namespace octet::bench {

// Extents of the caches, with what a 0 of Rotation stands for.
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

// Caches and positions.
template <class Problem>
std::size_t rotation_bytes(const Problem& problem) {
  const std::size_t cache =
      tensor_bytes(problem.rotation.cache, {cache_rows(problem), cache_cols(problem)});
  const std::size_t positions =
      problem.rotation.positions
          ? tensor_bytes(*problem.rotation.positions, {problem.batch, problem.seq})
          : 0;
  return 2 * cache + positions;
}

// q and k.
template <class Problem>
std::size_t heads_bytes(const Problem& problem) {
  return tensor_bytes(problem.dtype, {problem.batch, problem.seq, problem.q_heads + problem.k_heads,
                                      problem.head_dim});
}

// A matrix [batch * seq, heads * head_dim] as [batch, seq, heads, head_dim]; nothing of nothing.
template <class Problem>
TensorView as_heads(const Tensor& matrix, const Problem& problem) {
  const TensorView& view = matrix.view();
  if (view.data == nullptr) return {};
  return make_view(view.data, view.dtype,
                   {problem.batch, problem.seq, view.cols() / problem.head_dim, problem.head_dim},
                   view.device);
}

// Every token at its place: [batch, seq] of i32 or i64.
inline Tensor make_positions(Dtype dtype, std::int64_t batch, std::int64_t seq, Device device) {
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
