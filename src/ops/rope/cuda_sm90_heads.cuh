// rope, and rms_norm_rope forward, on Hopper: each token of q and k read once, turned in registers
// and written once.
//
// Threads of a token: `threads`, a power of two; several tokens to a block where they are few. A
// thread has kUnits units at a time. With the norm over a row it has all of its units at once; over
// a head the sum of squares is that of `units_padded` neighbouring lanes. Bound by memory.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/dependent_launch.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/rope/cuda_sm90_units.cuh"

namespace octet::sm90 {

inline constexpr int kHeadThreads = 256;

enum class HeadNorm { none, head, row };

// What is asked of the units of a tensor, uniformly known before the kernel begins. `nothing`:
// heads and weights are aligned, the weights of the tensor's dtype and plain factors, every unit is
// rotated, cos and sin come in vectors, and every thread has units of as many heads. `heads`: all
// but the last.
enum class Asked { nothing, heads, everything };

// Blocks of 256 threads per multiprocessor that registers allow without spilling. More are better
// where they fit: 8x2048x4096 bf16 on an H200 moved 0.87 of a copy with three, 0.89 with four,
// normed by head.
template <Dtype kDtype, HeadNorm kNorm, int kUnits>
inline constexpr int kHeadBlocks = kDtype == Dtype::f32 || kUnits > 2               ? 2
                                   : kDtype == Dtype::f16 || kNorm == HeadNorm::row ? 3
                                                                                    : 4;

// One of q and k.
struct HeadsInOut {
  Heads in;
  Heads out;
  Weights g;    // [head_dim] or [heads * head_dim]
  float* rstd;  // [tokens, heads] or [tokens]; null: not wanted
  int heads;
  float one_over_count;  // of the elements that are normed together
  int threads_log2;      // of a token
  unsigned blocks;       // block size / threads tokens each
  Asked asked;
};

struct HeadsParams {
  HeadsInOut tensors[2];
  Angles angles;
  HeadShape shape;
  unsigned tokens;
  float eps;
  bool one_plus_weight;
  bool aligned;  // every head and the weights, to 16 bytes
};

template <class Unit>
__device__ __forceinline__ float sum_of_unit_squares(const Unit& unit) {
  float squares[kPairs];
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const float a = unit.first.decode_again(p);
    const float b = unit.second.decode_again(p);
    squares[p] = __fmaf_rn(a, a, __fmul_rn(b, b));
  }
  return sum_of_eight(squares);
}

// Over the `lanes` neighbouring lanes of a head, a power of two up to 32.
__device__ __forceinline__ float sum_of_head(float value, int lanes) {
  for (int step = 1; step < lanes; step *= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// Over the threads of a token, which are all or a part of the block's.
__device__ __forceinline__ float sum_of_token(float value, int threads_log2, float* sums) {
  if (threads_log2 <= 5) return sum_of_head(value, 1 << threads_log2);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int warps = 1 << (threads_log2 - 5);
  value = sum_of_lanes(value);
  if (threadIdx.x % 32 == 0) sums[warp] = value;
  __syncthreads();
  return sum_of_warps(sums + (warp & -warps), warps);
}

// Two roundings off at most; an exact quotient and root would cost as much as all the rest of a
// unit.
__device__ __forceinline__ float head_rstd(float sum_of_squares, float one_over_count, float eps) {
  return rsqrtf(__fmaf_rn(sum_of_squares, one_over_count, eps));
}

// Weights that are aligned and of the tensor's own dtype are read without a question.
template <Dtype kDtype>
__device__ __forceinline__ bool are_plain(const Weights& g) {
  return g.aligned && g.dtype == kDtype;
}

template <Dtype kDtype, bool kPlain>
__device__ __forceinline__ void load_four_gains(const Weights& g, int col, float (&values)[4]) {
  if (kPlain) {
    load_four<kDtype>(g.data, col, values);
  } else if (g.aligned) {
    load_four_weights(g, col, values);
  } else {
    load_four_singly(g, col, values);
  }
}

// The weights of half a unit: `at` is where those of its head begin.
template <Dtype kDtype, bool kPlain, RopeStyle kStyle>
__device__ __forceinline__ Quad load_quad_gains(const Weights& g, bool one_plus_weight, int at,
                                                const UnitPlace<kStyle>& place, int half) {
  Quad w;
  if constexpr (kStyle == RopeStyle::rotate_half) {
    load_four_gains<kDtype, kPlain>(g, at + place.first + 4 * half, w.a);
    load_four_gains<kDtype, kPlain>(g, at + place.second + 4 * half, w.b);
  } else {
    float low[4];
    float high[4];
    const int col = at + (half == 0 ? place.first : place.second);
    load_four_gains<kDtype, kPlain>(g, col, low);
    load_four_gains<kDtype, kPlain>(g, col + 4, high);
    w = {{low[0], low[2], high[0], high[2]}, {low[1], low[3], high[1], high[3]}};
  }
  if (!one_plus_weight) return w;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    w.a[i] = __fadd_rn(1.0f, w.a[i]);
    w.b[i] = __fadd_rn(1.0f, w.b[i]);
  }
  return w;
}

__device__ __forceinline__ void scale_quad(Quad& quad, float rstd, const Quad& w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    quad.a[i] = __fmul_rn(__fmul_rn(quad.a[i], rstd), w.a[i]);
    quad.b[i] = __fmul_rn(__fmul_rn(quad.b[i], rstd), w.b[i]);
  }
}

// Which token, unit and heads are this thread's: heads head0, head0 + head_step and so on.
struct UnitThread {
  unsigned index;  // among the threads of the token
  int unit;
  int head0;
  int head_step;

  __device__ UnitThread(const HeadShape& shape, int threads_log2)
      : index(threadIdx.x & ((1u << threads_log2) - 1)),
        unit(static_cast<int>(index & ((1u << shape.units_log2) - 1))),
        head0(static_cast<int>(index >> shape.units_log2)),
        head_step(1 << (threads_log2 - shape.units_log2)) {}
};

// Where the first head of a thread lies, and how far the next is, in bytes.
template <Dtype kDtype>
struct HeadPointer {
  char* head;
  std::int64_t step;

  __device__ HeadPointer(const Heads& heads, const Token& token, const UnitThread& thread)
      : head(static_cast<char*>(heads.data) +
             (token.offset(heads) + thread.head0 * heads.strides[2]) * kElementBytes<kDtype>),
        step(thread.head_step * heads.strides[2] * kElementBytes<kDtype>) {}
};

// What a thread works with while it is at a token.
template <Asked kAsked, Dtype kDtype, RopeStyle kStyle>
struct UnitsAt {
  static constexpr bool kSimple = kAsked != Asked::everything;
  const HeadsParams& params;
  const HeadsInOut& tensor;
  const UnitThread& thread;
  const UnitPlace<kStyle>& place;
  std::int64_t position;

  __device__ __forceinline__ bool has(int head) const {
    return kAsked == Asked::nothing || head < tensor.heads;
  }
  __device__ __forceinline__ Turns turns(int half) const {
    return load_unit_turns<kSimple>(params.angles, position, place.rotated, thread.unit, half);
  }
  template <bool kPlain>
  __device__ __forceinline__ Quad gains(int first, int half) const {
    return load_quad_gains<kDtype, kPlain>(tensor.g, !kSimple && params.one_plus_weight, first,
                                           place, half);
  }
};

// Turns units, half of the pairs at a time, with the norm before it where there is one; kPlain is
// of its weights.
template <HeadNorm kNorm, bool kPlain, Asked kAsked, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void turn_units(const UnitsAt<kAsked, kDtype, kStyle>& at,
                                           int first_head, Turns turns, const float (&rstd)[kUnits],
                                           Unit<kDtype, kStyle> (&units)[kUnits]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (half > 0) turns = at.turns(half);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int head = first_head + u * at.thread.head_step;
      if (!at.has(head)) continue;
      Quad quad = units[u].quad(half);
      if constexpr (kNorm != HeadNorm::none) {
        const int first = kNorm == HeadNorm::row ? head * at.params.shape.head_dim : 0;
        scale_quad(quad, rstd[kNorm == HeadNorm::row ? 0 : u],
                   at.template gains<kPlain>(first, half));
      }
      if (at.place.rotated) quad.turn(turns);
      units[u].set_quad(half, quad);
    }
  }
}

// The token of this thread, of one tensor.
template <HeadNorm kNorm, int kUnits, Asked kAsked, Dtype kDtype, RopeStyle kStyle>
__device__ __forceinline__ void rotate_token(const HeadsParams& params, const HeadsInOut& tensor,
                                             unsigned block, float* sums, Constant<kDtype>,
                                             Constant<kStyle>) {
  constexpr bool kSimple = kAsked != Asked::everything;
  const HeadShape& shape = params.shape;
  const unsigned token_index =
      ((block * blockDim.x) >> tensor.threads_log2) + (threadIdx.x >> tensor.threads_log2);
  const bool valid = kSimple || token_index < params.tokens;
  const Token token(valid ? token_index : 0, shape.seq);
  const UnitThread thread(shape, tensor.threads_log2);
  const bool has_unit = kSimple || (valid && thread.unit < shape.units);
  const UnitPlace<kStyle> place(shape, has_unit ? thread.unit : 0, kSimple);
  HeadPointer<kDtype> in(tensor.in, token, thread);
  HeadPointer<kDtype> out(tensor.out, token, thread);
  const bool aligned = kSimple || params.aligned;
  const UnitsAt<kAsked, kDtype, kStyle> at{params, tensor, thread, place,
                                           position_of(params.angles, token)};
  int head = thread.head0;
  do {
    // Read
    Unit<kDtype, kStyle> units[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      units[u] = {};
      if (has_unit && at.has(head + u * thread.head_step)) {
        units[u].template load<kNorm != HeadNorm::none>(in.head + u * in.step, place, aligned);
      }
    }
    const Turns turns =
        at.turns(0);  // under way while the norm is found; the rest lies beside them

    // Norm
    float rstd[kUnits] = {};
    if constexpr (kNorm == HeadNorm::row) {
      float sum = 0;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) sum += sum_of_unit_squares(units[u]);
      sum = sum_of_token(sum, tensor.threads_log2, sums);
      rstd[0] = head_rstd(sum, tensor.one_over_count, params.eps);
      if (valid && thread.index == 0 && tensor.rstd != nullptr) tensor.rstd[token_index] = rstd[0];
    } else if constexpr (kNorm == HeadNorm::head) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const float sum = sum_of_head(sum_of_unit_squares(units[u]), 1 << shape.units_log2);
        rstd[u] = head_rstd(sum, tensor.one_over_count, params.eps);
        const int own_head = head + u * thread.head_step;
        if (has_unit && thread.unit == 0 && at.has(own_head) && tensor.rstd != nullptr) {
          tensor.rstd[std::int64_t{token_index} * tensor.heads + own_head] = rstd[u];
        }
      }
    }

    // Turn and write
    if (has_unit) {
      if (kSimple || kNorm == HeadNorm::none || are_plain<kDtype>(tensor.g)) {
        turn_units<kNorm, true>(at, head, turns, rstd, units);
      } else {
        turn_units<kNorm, false>(at, head, turns, rstd, units);
      }
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (at.has(head + u * thread.head_step)) {
          units[u].store(out.head + u * out.step, place, aligned);
        }
      }
    }
    head += kUnits * thread.head_step;
    in.head += kUnits * in.step;
    out.head += kUnits * out.step;
  } while (kNorm != HeadNorm::row && __any_sync(~0u, head < tensor.heads));
}

template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm, int kUnits>
__global__
__launch_bounds__(kHeadThreads, (kHeadBlocks<kDtype, kNorm, kUnits>)) void rotate_heads_kernel(
    const __grid_constant__ HeadsParams params) {
  __shared__ float sums[kHeadThreads / 32];
  const TensorOfBlock<HeadsInOut> own = tensor_of_block(params.tensors);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const auto rotate = [&](auto asked) {
    rotate_token<kNorm, kUnits, decltype(asked)::value>(params, own.tensor, own.block, sums,
                                                        Constant<kDtype>(), Constant<kStyle>());
  };
  switch (own.tensor.asked) {
    case Asked::nothing: rotate(Constant<Asked::nothing>()); break;
    case Asked::heads: rotate(Constant<Asked::heads>()); break;
    case Asked::everything: rotate(Constant<Asked::everything>()); break;
  }
}

}  // namespace octet::sm90
