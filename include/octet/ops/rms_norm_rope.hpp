// rms_norm_rope: rms_norm and then rope of q and k, one read, one write; f32 inside.
//
//   norm = row    the norm is over all heads of a token together, with a weight per element of them
//   norm = head   each head is normed by itself (QK-norm), with one weight for all heads
//   forward    rstd = 1 / sqrt(mean(x * x) + eps);  n = (x * rstd) * w;  out = round(rotate(n))
//   backward   dn = rotate(dout) with -sin;  t = dn * w;  k = mean(t * x) * rstd * rstd
//              dx = round(fma(-x, k, t) * rstd)
//              dg = sum of dn * (x * rstd) over tokens (norm = row) or tokens and heads (head)
// w, rotation, caches, positions and strides are those of rms_norm.hpp and rope.hpp; n is not
// rounded between the two. Sums are f32 in an order fixed by implementation and device: the same
// call gives the same bits. An output may be the same view as its input.
#pragma once

#include <octet/ops/rope.hpp>

namespace octet {

enum class NormScope : std::int32_t { row = 1, head = 2 };

struct RmsNormRopeProblem {
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;   // 0: no k
  std::int64_t head_dim = 0;  // even
  NormScope norm = NormScope::row;
  Dtype dtype = Dtype::bf16;         // of q and k: f32, f16 or bf16
  Dtype weight_dtype = Dtype::bf16;  // of g: f32, f16 or bf16
  float eps = 1e-6f;                 // finite, >= 0
  bool one_plus_weight = false;
  bool training = true;         // rstd is written, for backward
  Dtype dg_dtype = Dtype::f32;  // f32, f16 or bf16
  Rotation rotation{};
  Device device{};
};

// Weights are [heads * head_dim] with norm = row, [head_dim] with norm = head.
// rstd is f32: [batch * seq] with norm = row, [batch * seq * heads] with norm = head.
// Tensors of k are ignored if k_heads is 0.
struct RmsNormRopeForwardArgs {
  TensorView q;       // [batch, seq, q_heads, head_dim]
  TensorView k;       // [batch, seq, k_heads, head_dim]
  TensorView g_q;     // weights of q
  TensorView g_k;     // weights of k
  TensorView q_out;   // as q
  TensorView k_out;   // as k
  TensorView rstd_q;  // written if training is true
  TensorView rstd_k;
  RotationArgs rotation;
};

struct RmsNormRopeBackwardArgs {
  TensorView dq_out;  // [batch, seq, q_heads, head_dim]
  TensorView dk_out;  // [batch, seq, k_heads, head_dim]
  TensorView q;       // the input of forward
  TensorView k;
  TensorView g_q;
  TensorView g_k;
  TensorView rstd_q;
  TensorView rstd_k;
  TensorView dq;    // as q
  TensorView dk;    // as k
  TensorView dg_q;  // as g_q, of dg_dtype
  TensorView dg_k;
  RotationArgs rotation;
};

using RmsNormRopeForwardPlan = Plan<RmsNormRopeProblem, ForwardPass>;
using RmsNormRopeBackwardPlan = Plan<RmsNormRopeProblem, BackwardPass>;

// "rms-norm-rope --shape 8x2048x4096 --head-dim 128 --norm row --dtype bf16 --device cpu"
OCTET_API std::string describe(const RmsNormRopeProblem& problem);
OCTET_API RmsNormRopeForwardPlan plan_rms_norm_rope_forward(const RmsNormRopeProblem& problem,
                                                            const PlanOptions& = {});
OCTET_API RmsNormRopeBackwardPlan plan_rms_norm_rope_backward(const RmsNormRopeProblem& problem,
                                                              const PlanOptions& = {});
OCTET_API void run(const RmsNormRopeForwardPlan& plan, const RmsNormRopeForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const RmsNormRopeBackwardPlan& plan, const RmsNormRopeBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
