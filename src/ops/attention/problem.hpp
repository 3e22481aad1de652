// The checked problem of attention, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/attention/mask.hpp"

#include <octet/ops/attention.hpp>

#include <span>
#include <vector>

namespace octet {

using AttentionForwardImplementation = Implementation<AttentionProblem, AttentionForwardArgs>;
using AttentionBackwardImplementation = Implementation<AttentionProblem, AttentionBackwardArgs>;

extern const AttentionForwardImplementation kAttentionForwardCudaSm90Wgmma;
extern const AttentionForwardImplementation kAttentionForwardCudnn;
extern const AttentionForwardImplementation kAttentionForwardCudnnNondeterministic;
extern const AttentionForwardImplementation kAttentionForwardCpuSimd;
extern const AttentionForwardImplementation kAttentionForwardCpuReference;
extern const AttentionBackwardImplementation kAttentionBackwardCudaSm90Wgmma;
extern const AttentionBackwardImplementation kAttentionBackwardCudnn;
extern const AttentionBackwardImplementation kAttentionBackwardCudnnNondeterministic;
extern const AttentionBackwardImplementation kAttentionBackwardCpuSimd;
extern const AttentionBackwardImplementation kAttentionBackwardCpuReference;

// In the order they are tried.
std::span<const AttentionForwardImplementation> attention_forward_implementations();
std::span<const AttentionBackwardImplementation> attention_backward_implementations();

void check(const AttentionProblem& problem);

// The problem with its defaults filled in: dim_v, out_dtype and scale.
AttentionProblem completed(const AttentionProblem& problem);

// A problem through cuDNN, which chooses and compiles its kernels now: 0.05 to 0.3 s. The plan has no configuration
// text yet. Throws Error(unsupported) with cuDNN's words, or where the workspace is over its limit.
Planned<AttentionForwardArgs> cudnn_forward_plan(const AttentionProblem& problem);
Planned<AttentionBackwardArgs> cudnn_backward_plan(const AttentionProblem& problem,
                                                   bool deterministic);

// The rows of one head of one sequence.
struct HeadRows {
  char* data = nullptr;
  std::int64_t row_stride = 0;  // in elements
  Dtype dtype = Dtype::f32;

  void* row(std::int64_t index) const { return data + index * row_stride * size_bytes(dtype); }
};

// Where the sequences of a call on the CPU lie. Its tensors are checked.
class Sequences {
 public:
  Sequences(const AttentionProblem& problem, const AttentionInputs& inputs);

  // With offsets there is one more than the problem has: the rows behind the last, which see nothing.
  std::int64_t count() const { return count_; }
  std::int64_t queries(std::int64_t sequence) const { return q_.rows(sequence); }
  std::int64_t keys(std::int64_t sequence) const { return kv_.rows(sequence); }
  SequenceMask mask(std::int64_t sequence) const;

  // Of a tensor shaped as q, of one shaped as k, and of one shaped as lse.
  HeadRows query_rows(const TensorView& view, std::int64_t sequence, std::int64_t head) const {
    return rows_of(view, q_, sequence, head);
  }
  HeadRows key_rows(const TensorView& view, std::int64_t sequence, std::int64_t head) const {
    return rows_of(view, kv_, sequence, head);
  }
  float* query_floats(const TensorView& view, std::int64_t sequence, std::int64_t head) const;

 private:
  struct Lengths {
    std::vector<std::int64_t> begins;  // [count + 1], in a packed tensor; empty: it is not packed
    std::int64_t length = 0;           // of every sequence that is not packed

    std::int64_t rows(std::int64_t sequence) const {
      const auto at = static_cast<std::size_t>(sequence);
      return begins.empty() ? length : begins[at + 1] - begins[at];
    }
  };
  static Lengths packed(const TensorView& offsets, std::int64_t batch, std::int64_t total);
  static HeadRows rows_of(const TensorView& view, const Lengths& lengths, std::int64_t sequence,
                          std::int64_t head);

  AttentionMask mask_;
  std::int64_t batch_;
  std::int64_t count_;
  Lengths q_, kv_;
};

// offsets[index], of i32 or i64.
std::int64_t offset_at(const TensorView& offsets, std::int64_t index);

inline float sink_at(const AttentionInputs& inputs, std::int64_t head) {
  return static_cast<const float*>(inputs.sink.data)[head * inputs.sink.strides[0]];
}

// The key and value head that a query head reads.
inline std::int64_t kv_head(const AttentionProblem& problem, std::int64_t head) {
  return head / (problem.heads_q / problem.heads_kv);
}

}  // namespace octet
