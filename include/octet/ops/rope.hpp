// rope: rotary position embedding of q and k in one launch; f32 inside.
//
// The first `rotary_dim` elements of a head are pairs that are rotated by the angle of the token's
// position p; the others are copied:
//   rotate_half   pair i is (x[i], x[i + rotary_dim / 2])
//   interleaved   pair i is (x[2i], x[2i + 1])
//   forward       (a, b) -> (fma(a, cos, -(b * sin)), fma(b, cos, a * sin))
//                 with cos[p, i], sin[p, i]
//   backward      the same with -sin
// rounded to the dtype once. Same bits on every device, instruction set and thread count.
//
// Caches are [cache_rows, rotary_dim / 2], or [cache_rows, rotary_dim] as some frameworks keep
// them, each value twice; only the first of each pair is read.
// Positions are 0 ... seq - 1, or given per token. A position outside the caches is refused on the
// CPU; on a CUDA device, where the host cannot see it, the token's rotated elements become NaN.
// Heads may lie anywhere in a larger tensor (q, k, v packed; heads before tokens): only the last
// stride is fixed, at 1. An output may be the same view as its input.
#pragma once

#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <optional>

namespace octet {

enum class RopeStyle : std::int32_t { rotate_half = 1, interleaved = 2 };

struct Rotation {
  RopeStyle style = RopeStyle::rotate_half;
  std::int64_t rotary_dim = 0;     // even, at most head_dim; 0: head_dim
  std::int64_t cache_rows = 0;     // of cos and sin; at least seq without positions; 0: seq
  bool full_cache = false;         // caches have rotary_dim columns instead of half as many
  Dtype cache_dtype = Dtype::f32;  // of cos and sin: f32, f16 or bf16
  std::optional<Dtype>
      positions_dtype{};  // i32 or i64 if given; empty: positions are 0 ... seq - 1

  friend bool operator==(const Rotation&, const Rotation&) = default;
};

struct RotationArgs {
  TensorView cos;        // [cache_rows, rotary_dim / 2 or rotary_dim], columns contiguous
  TensorView sin;        // the same
  TensorView positions;  // [batch, seq]; ignored if the problem has none
};

struct RopeProblem {
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;   // 0: no k
  std::int64_t head_dim = 0;  // even
  Dtype dtype = Dtype::bf16;  // of q and k: f32, f16 or bf16
  Rotation rotation{};
  Device device{};
};

// Tensors of k are ignored if k_heads is 0.
struct RopeForwardArgs {
  TensorView q;      // [batch, seq, q_heads, head_dim]
  TensorView k;      // [batch, seq, k_heads, head_dim]
  TensorView q_out;  // as q
  TensorView k_out;  // as k
  RotationArgs rotation;
};

struct RopeBackwardArgs {
  TensorView dq_out;  // [batch, seq, q_heads, head_dim]
  TensorView dk_out;  // [batch, seq, k_heads, head_dim]
  TensorView dq;      // as dq_out
  TensorView dk;      // as dk_out
  RotationArgs rotation;
};

using RopeForwardPlan = Plan<RopeProblem, ForwardPass>;
using RopeBackwardPlan = Plan<RopeProblem, BackwardPass>;

// "rope --shape 8x2048x4096 --head-dim 128 --kv-heads 8 --dtype bf16 --device cpu"
OCTET_API std::string describe(const RopeProblem& problem);
OCTET_API RopeForwardPlan plan_rope_forward(const RopeProblem& problem, const PlanOptions& = {});
OCTET_API RopeBackwardPlan plan_rope_backward(const RopeProblem& problem, const PlanOptions& = {});
OCTET_API void run(const RopeForwardPlan& plan, const RopeForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const RopeBackwardPlan& plan, const RopeBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
