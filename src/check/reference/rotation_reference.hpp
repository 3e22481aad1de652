// Angles of theta 10000 and positions for a check, and the rotation in f64.
#pragma once

#include <octet/octet.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace octet {

// The tokens that are rotated.
struct TokenShape {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t head_dim = 0;
  Device device{};
};

template <class Problem>
TokenShape token_shape(const Problem& problem) {
  return {problem.batch, problem.seq, problem.head_dim, problem.device};
}

class RotationReference {
 public:
  RotationReference(const Rotation& rotation, const TokenShape& shape, std::uint64_t seed);

  // The arguments of the operator, on its device.
  RotationArgs args() const { return {cos_, sin_, positions_}; }
  // Rotates the heads of one token, which lie side by side in `row`.
  void rotate(std::int64_t token, bool inverse, std::span<double> row) const;

 private:
  void make_caches(Dtype dtype, Device device);
  void make_positions(Dtype dtype, const TokenShape& shape, std::uint64_t seed);

  bool interleaved_;
  bool full_cache_;
  std::int64_t seq_;
  std::int64_t head_dim_;
  std::int64_t pairs_;  // of a head
  std::int64_t rows_;   // of the caches
  Tensor cos_;
  Tensor sin_;
  Tensor positions_;
  std::vector<double> cos_values_;  // [rows_, pairs_], after rounding
  std::vector<double> sin_values_;
  std::vector<std::int64_t> position_values_;  // empty if none are given
};

// [tokens, heads * head_dim] seen as [batch, seq, heads, head_dim].
TensorView as_heads(const TensorView& matrix, const TokenShape& shape);

}  // namespace octet
