// The parameters of rms_norm_rope backward on Hopper, and how a thread walks through its tokens: it
// keeps its heads, and addresses are only added to.
#pragma once

#include "ops/rms_norm_rope/backward_layout.hpp"
#include "ops/rope/cuda_sm90_heads.cuh"

namespace octet::sm90 {

// One tensor of heads, as a thread walks through it. Distances in bytes.
struct HeadsWalk {
  Heads heads;
  std::int64_t step;    // from a group to the next of the same block
  std::int64_t wrap;    // to be added where that passes the end of a sequence
  std::int64_t second;  // from a thread's first head to its second
};

// One of q and k.
struct HeadGradients {
  HeadsWalk dout;
  HeadsWalk x;
  HeadsWalk dx;
  Weights g;
  const float* rstd;
  float* partials;  // [blocks, columns of dg]
  int heads;
  BackwardHeads layout;
  unsigned step_tokens;  // from a group to the next of the same block
  unsigned step_seq;     // the same within a sequence
  float one_over_count;  // 1 / number of elements that are normed together
  unsigned blocks;
};

struct HeadGradientParams {
  HeadGradients tensors[2];
  Angles angles;
  HeadShape shape;
  unsigned tokens;
  bool one_plus_weight;
  bool aligned;  // every head starts on a 16-byte boundary
};

// A thread's unit and heads, and its tokens: from first_token on, step_tokens apart.
struct BackThread : BackwardThread {
  bool has_second;
  unsigned stream;
  unsigned first_token;  // far beyond the last one in a thread without a unit

  __device__ BackThread(const HeadShape& shape, const HeadGradients& tensor, unsigned block)
      : BackwardThread(
            backward_thread(tensor.layout, shape.units, shape.units_log2,
                            static_cast<int>(block % static_cast<unsigned>(tensor.layout.chunks)),
                            static_cast<int>(threadIdx.x))),
        has_second(head + tensor.layout.slots < tensor.heads),
        stream(block / static_cast<unsigned>(tensor.layout.chunks)),
        first_token(has_unit ? stream * static_cast<unsigned>(tensor.layout.group_tokens) +
                                   static_cast<unsigned>(token)
                             : kNoToken) {}
  static constexpr unsigned kNoToken = 0x80000000u;
};

// Addresses in kCount tensors, of the token that a thread is at.
template <int kCount>
struct TokenWalk {
  unsigned token;
  unsigned seq;
  char* at[kCount];

  __device__ __forceinline__ void advance(const HeadGradients& tensor, unsigned seq_length,
                                          const HeadsWalk* const (&heads)[kCount]) {
    token += tensor.step_tokens;
    seq += tensor.step_seq;
#pragma unroll
    for (int i = 0; i < kCount; ++i) at[i] += heads[i]->step;
    if (seq < seq_length) return;
    seq -= seq_length;
#pragma unroll
    for (int i = 0; i < kCount; ++i) at[i] += heads[i]->wrap;
  }
};

}  // namespace octet::sm90
