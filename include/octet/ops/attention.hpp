// attention: softmax(scale * q k^T, masked) v for every head, and its gradients.
//
//   forward    s[i, j] = scale * sum_c q[i, c] * k[j, c]        for the keys j that query i sees
//              lse[i] = log(sum_j exp(s[i, j]) [+ exp(sink)])   natural logarithm, f32
//              out[i, c] = sum_j exp(s[i, j] - lse[i]) * v[j, c]
//   backward   p = exp(s - lse), dp[i, j] = sum_c dout[i, c] * v[j, c]
//              delta[i] = sum_c dout[i, c] * out[i, c] - dlse[i]
//              ds = p * (dp - delta)
//              dq = scale * ds k, dk = scale * ds^T q, dv = p^T dout
//              dsink = -sum_i exp(sink - lse[i]) * delta[i]
//
// Sums are f32 and each result is rounded once; gates bound the error (docs/numerics.md), and
// implementations differ in their last bits. Every implementation is deterministic: the same call
// gives the same bits, whatever the threads, the batch around a sequence and the workspace limit
// (cudnn, which chooses its kernels by itself: the same call with the same version of cuDNN).
//
// Heads are grouped: query head h reads key and value head h / (heads_q / heads_kv). Tensors are
// [batch, seq, heads, dim] with any strides but the last, which is 1, so that heads may lie before
// tokens or inside a packed tensor. With `offsets_dtype` the sequences have lengths of their own and
// lie one behind the other in [total, heads, dim]: sequence b has rows offsets[b] to offsets[b + 1].
// A row behind the last sequence gets zeros (lse: -infinity).
//
// A query without visible keys has out = 0, lse = -infinity (or the sink) and dq = 0, and adds
// nothing to dk and dv. Empty sequences are fine. Not offered: dropout, bias, ALiBi, softcap.
#pragma once

#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <cstddef>
#include <optional>

namespace octet {

// Which query and key are at the same place where a sequence has more keys than queries, or fewer:
// the last ones, or the first ones.
enum class MaskAlignment : std::int32_t { bottom_right = 1, top_left = 2 };

inline constexpr std::int64_t kNoWindow = -1;

// Query i sees key j if i + shift - left <= j <= i + shift + right, where shift is the number of keys
// minus the number of queries for bottom_right, else 0.
struct AttentionMask {
  std::int64_t left = kNoWindow;   // keys before a query's place, or all
  std::int64_t right = kNoWindow;  // keys behind it, or all
  MaskAlignment align = MaskAlignment::bottom_right;

  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;
};
inline constexpr AttentionMask kCausalMask{.right = 0};

struct AttentionProblem {
  std::int64_t batch = 1;  // sequences
  // Queries and keys of a sequence. With offsets, an upper bound on those of the longest.
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;
  std::int64_t heads_q = 0;  // a multiple of heads_kv
  std::int64_t heads_kv = 0;
  std::int64_t dim_qk = 0;    // of a head of q and k
  std::int64_t dim_v = 0;     // of a head of v and out; 0: dim_qk
  Dtype dtype = Dtype::bf16;  // of q, k, v and their gradients: f32, f16 or bf16
  // Of out and dout: dtype, or f32 for partial results that are merged.
  std::optional<Dtype> out_dtype{};
  AttentionMask mask{};
  float scale = 0;    // finite; 0: 1 / sqrt(dim_qk)
  bool sink = false;  // every query head has one more logit, whose value is 0
  // i32 or i64: sequences of different lengths, in total_q and total_kv rows.
  std::optional<Dtype> offsets_dtype{};
  std::int64_t total_q = 0;
  std::int64_t total_kv = 0;
  // The most workspace that backward may ask for.
  std::size_t workspace_limit = std::size_t{1} << 30;
  Device device{};
};

// q, k and v of both passes, [batch, seq, heads, dim], or [total, heads, dim] with offsets.
struct AttentionInputs {
  TensorView q;           // [batch, seq_q, heads_q, dim_qk]
  TensorView k;           // [batch, seq_kv, heads_kv, dim_qk]
  TensorView v;           // [batch, seq_kv, heads_kv, dim_v]
  TensorView sink;        // [heads_q], f32; ignored if the problem has none
  TensorView offsets_q;   // [batch + 1], ascending, from 0; ignored if the problem has none
  TensorView offsets_kv;  // the same
};

struct AttentionForwardArgs {
  AttentionInputs inputs;
  TensorView out;  // [batch, seq_q, heads_q, dim_v], or [total_q, heads_q, dim_v]
  TensorView lse;  // [batch, heads_q, seq_q], or [heads_q, total_q], f32; no data: not written
};

struct AttentionBackwardArgs {
  AttentionInputs inputs;
  TensorView out;    // as forward wrote it, or merged
  TensorView lse;    // the same
  TensorView dout;   // as out
  TensorView dlse;   // as lse: the gradient arriving at lse; no data: none
  TensorView dq;     // as q
  TensorView dk;     // as k
  TensorView dv;     // as v
  TensorView dsink;  // [heads_q], f32; ignored if the problem has no sink
};

using AttentionForwardPlan = Plan<AttentionProblem, ForwardPass>;
using AttentionBackwardPlan = Plan<AttentionProblem, BackwardPass>;

// "attention --batch 2 --seq 4096 --heads 32x8 --head-dim 128 --causal --dtype bf16 --device cpu"
OCTET_API std::string describe(const AttentionProblem& problem);
OCTET_API AttentionForwardPlan plan_attention_forward(const AttentionProblem& problem,
                                                      const PlanOptions& = {});
OCTET_API AttentionBackwardPlan plan_attention_backward(const AttentionProblem& problem,
                                                        const PlanOptions& = {});
OCTET_API void run(const AttentionForwardPlan& plan, const AttentionForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const AttentionBackwardPlan& plan, const AttentionBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
