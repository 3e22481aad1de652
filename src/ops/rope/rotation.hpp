// What rope and rms_norm_rope share: the checks of heads, caches and positions, and their
// addresses.
#pragma once

#include "core/call.hpp"
#include "core/numeric.hpp"
#include "dispatch/machine.hpp"

#include <octet/ops/rope.hpp>

#include <string>

namespace octet {

// What the problems of both have in common, with the defaults of the rotation filled in.
struct RotatedHeads {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;
  std::int64_t head_dim = 0;
  Dtype dtype = Dtype::bf16;
  Rotation rotation{};  // rotary_dim and cache_rows are 0 only if nothing is rotated
  Device device{};

  std::int64_t tokens() const { return batch * seq; }
  std::int64_t pairs() const { return rotation.rotary_dim / 2; }  // of a head
  std::int64_t cache_cols() const { return rotation.full_cache ? rotation.rotary_dim : pairs(); }
  // A tensor of `count` heads per token.
  TensorForm form(std::int64_t count, std::string_view spelling) const {
    return {dtype, {batch, seq, count, head_dim}, spelling};
  }
};

template <class Problem>
RotatedHeads rotated_heads(const Problem& problem) {
  RotatedHeads heads{problem.batch,    problem.seq,   problem.q_heads,  problem.k_heads,
                     problem.head_dim, problem.dtype, problem.rotation, problem.device};
  if (heads.rotation.rotary_dim == 0) heads.rotation.rotary_dim = problem.head_dim;
  if (heads.rotation.cache_rows == 0) heads.rotation.cache_rows = problem.seq;
  return heads;
}

// The elements of a head that are rotated together.
struct PairOfElements {
  std::int64_t first = 0;
  std::int64_t second = 0;
};
inline PairOfElements pair_of_elements(const Rotation& rotation, std::int64_t pair) {
  if (rotation.style == RopeStyle::interleaved) return {2 * pair, 2 * pair + 1};
  return {pair, pair + rotation.rotary_dim / 2};
}

// A tensor [batch, seq, heads, head_dim]: distances in elements.
struct HeadsView {
  void* data = nullptr;
  Dtype dtype = Dtype::bf16;
  std::int64_t heads = 0;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;

  // The first element of a head.
  char* head(std::int64_t batch, std::int64_t token, std::int64_t head) const {
    const std::int64_t index = batch * batch_stride + token * token_stride + head * head_stride;
    return static_cast<char*>(data) + index * size_bytes(dtype);
  }
};
inline HeadsView heads_view(const TensorView& view) {
  return {view.data, view.dtype, view.shape[2], view.strides[0], view.strides[1], view.strides[2]};
}

// The tensors of q, or of k, in backward of a norm and a rotation.
struct BackwardSide {
  std::int64_t heads = 0;
  TensorView dout;
  TensorView x;
  TensorView g;
  TensorView rstd;
  TensorView dx;
  TensorView dg;
};

// Element (batch, token) of positions on the host; the token itself if none are given.
std::int64_t position_of(const Rotation& rotation, const RotationArgs& args, std::int64_t batch,
                         std::int64_t token);

// cos and sin of one token, on the host.
class TokenAngles {
 public:
  TokenAngles(const Rotation& rotation, const RotationArgs& args, std::int64_t batch,
              std::int64_t token);

  float cos(std::int64_t pair) const { return read(cos_, pair); }
  float sin(std::int64_t pair) const { return read(sin_, pair); }

 private:
  float read(const TensorView& cache, std::int64_t pair) const {
    return load_f32(cache.data, row_ * cache.strides[0] + pair * step_, cache.dtype);
  }

  const TensorView& cos_;
  const TensorView& sin_;
  std::int64_t row_;
  std::int64_t step_;  // from pair to pair
};

// "--shape 8x2048x4096 --head-dim 128", and what is not the default of a rotation, each with a
// space before it.
std::string describe_shape(const RotatedHeads& heads);
std::string describe_rotation(const Rotation& rotation);

// Checks the problem.
void check_rotated_heads(std::string_view op, const RotatedHeads& heads);
// Lists caches and positions; on the CPU every position is checked.
void read_rotation(Call& call, const RotatedHeads& heads, const RotationArgs& args);
// Why the Hopper kernels refuse a problem; empty if they take it.
std::string refuse_heads_on_hopper(const RotatedHeads& heads, const Machine& machine);

}  // namespace octet
