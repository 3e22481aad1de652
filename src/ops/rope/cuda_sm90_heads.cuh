// rope, and rms_norm_rope forward, on Hopper: each token of q and k is read once, rotated in
// registers and written once.
//
// A token has 2^threads_log2 threads, and a block has several tokens where these are few. A thread
// holds kUnits units at a time. With the norm over a row it holds all of its units at once. With
// the norm over a head, the sum of squares is over the neighbouring lanes of the head.
// Memory-bound.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/rope/cuda_sm90_units.cuh"

namespace octet::sm90 {

inline constexpr int kHeadThreads = 256;

enum class HeadNorm { none, head, row };

// Which run-time checks remain for a tensor; chosen at launch. `none`: heads and weights are
// aligned, the weights have the tensor's dtype and are used as they are, every unit is rotated, cos
// and sin are loaded as vectors, and every thread has the same number of heads. `heads`: all of
// this but the last.
enum class Checks { none, heads, all };

// Blocks of 256 threads per multiprocessor that registers allow without spilling. More are better
// where they fit: 8x2048x4096 bf16 on an H200, normed by head, ran at 0.87 of the speed of a copy
// with three and 0.89 with four.
template <Dtype kDtype, HeadNorm kNorm, int kUnits>
inline constexpr int kHeadBlocks = kDtype == Dtype::f32 || kUnits > 2               ? 2
                                   : kDtype == Dtype::f16 || kNorm == HeadNorm::row ? 3
                                                                                    : 4;

// One of q and k.
struct HeadsInOut {
  Heads in;
  Heads out;
  Weights g;    // [head_dim] or [heads * head_dim]
  float* rstd;  // [tokens, heads] or [tokens], or null
  int heads;
  float one_over_count;  // 1 / number of elements that are normed together
  int threads_log2;      // of a token
  unsigned blocks;       // of the tensor
  Checks checks;
};

struct HeadsParams {
  HeadsInOut tensors[2];
  Angles angles;
  HeadShape shape;
  unsigned tokens;
  float eps;
  bool one_plus_weight;
  bool aligned;  // every head starts on a 16-byte boundary
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

// The sum over the `lanes` neighbouring lanes of a head, a power of two up to 32.
__device__ __forceinline__ float sum_of_head(float value, int lanes) {
  for (int step = 1; step < lanes; step *= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// The sum over the threads of a token, which may be a part of the block.
__device__ __forceinline__ float sum_of_token(float value, int threads_log2, float* sums) {
  if (threads_log2 <= 5) return sum_of_head(value, 1 << threads_log2);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int warps = 1 << (threads_log2 - 5);
  value = sum_of_lanes(value);
  if (threadIdx.x % 32 == 0) sums[warp] = value;
  __syncthreads();
  return sum_of_warps(sums + (warp & -warps), warps);
}

// At most two roundings off. An exact quotient and root would cost as much as the rest of a unit.
__device__ __forceinline__ float head_rstd(float sum_of_squares, float one_over_count, float eps) {
  return rsqrtf(__fmaf_rn(sum_of_squares, one_over_count, eps));
}

// Plain weights are aligned and have the tensor's dtype, and need no run-time check.
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

// The weights of half a unit; those of its head start at column `at`.
template <Dtype kDtype, bool kPlain, RopeStyle kStyle>
__device__ __forceinline__ PairsOf4 load_unit_gains(const Weights& g, bool one_plus_weight, int at,
                                                    const UnitPlace<kStyle>& place, int half) {
  PairsOf4 w;
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

__device__ __forceinline__ void scale_pairs(PairsOf4& pairs, float rstd, const PairsOf4& w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs.a[i] = __fmul_rn(__fmul_rn(pairs.a[i], rstd), w.a[i]);
    pairs.b[i] = __fmul_rn(__fmul_rn(pairs.b[i], rstd), w.b[i]);
  }
}

// The unit and the heads of this thread: heads head0, head0 + head_step and so on.
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

// The address of a thread's next head, and the bytes to the head after it.
template <Dtype kDtype>
struct HeadPointer {
  char* head;
  std::int64_t step;

  __device__ HeadPointer(const Heads& heads, const Token& token, const UnitThread& thread)
      : head(static_cast<char*>(heads.data) +
             (token.offset(heads) + thread.head0 * heads.strides[2]) * kElementBytes<kDtype>),
        step(thread.head_step * heads.strides[2] * kElementBytes<kDtype>) {}
};

// What a thread needs while it works on a token.
template <Checks kChecks, Dtype kDtype, RopeStyle kStyle>
struct TokenContext {
  static constexpr bool kSimple = kChecks != Checks::all;
  const HeadsParams& params;
  const HeadsInOut& tensor;
  const UnitThread& thread;
  const UnitPlace<kStyle>& place;
  std::int64_t position;

  __device__ __forceinline__ bool has(int head) const {
    return kChecks == Checks::none || head < tensor.heads;
  }
  __device__ __forceinline__ CosSinOf4 cos_sin(int half) const {
    return load_unit_cos_sin<kSimple>(params.angles, position, place.rotated, place.unit, half);
  }
  template <bool kPlain>
  __device__ __forceinline__ PairsOf4 gains(int first, int half) const {
    return load_unit_gains<kDtype, kPlain>(tensor.g, !kSimple && params.one_plus_weight, first,
                                           place, half);
  }
};

// Norms units, where there is a norm, and rotates them, half of the pairs at a time. kPlain: the
// weights are.
template <HeadNorm kNorm, bool kPlain, Checks kChecks, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void rotate_units(const TokenContext<kChecks, kDtype, kStyle>& at,
                                             int first_head, CosSinOf4 cos_sin,
                                             const float (&rstd)[kUnits],
                                             Unit<kDtype, kStyle> (&units)[kUnits]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (half > 0) cos_sin = at.cos_sin(half);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int head = first_head + u * at.thread.head_step;
      if (!at.has(head)) continue;
      PairsOf4 pairs = units[u].pairs(half);
      if constexpr (kNorm != HeadNorm::none) {
        const int first = kNorm == HeadNorm::row ? head * at.params.shape.head_dim : 0;
        scale_pairs(pairs, rstd[kNorm == HeadNorm::row ? 0 : u],
                    at.template gains<kPlain>(first, half));
      }
      if (at.place.rotated) pairs.rotate(cos_sin);
      units[u].set_pairs(half, pairs);
    }
  }
}

// Loads the units of heads first_head, first_head + head_step and so on; zeros where there is none.
// With a norm the weights are to stay in the L1 cache, so units bypass it.
template <bool kPastL1, Checks kChecks, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void load_units(const TokenContext<kChecks, kDtype, kStyle>& at,
                                           const HeadPointer<kDtype>& in, int first_head,
                                           bool has_unit, bool aligned,
                                           Unit<kDtype, kStyle> (&units)[kUnits]) {
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    units[u] = {};
    if (has_unit && at.has(first_head + u * at.thread.head_step)) {
      units[u].template load<kPastL1>(in.head + u * in.step, at.place, aligned);
    }
  }
}

template <Checks kChecks, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void store_units(const TokenContext<kChecks, kDtype, kStyle>& at,
                                            const HeadPointer<kDtype>& out, int first_head,
                                            bool aligned,
                                            const Unit<kDtype, kStyle> (&units)[kUnits]) {
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (at.has(first_head + u * at.thread.head_step)) {
      units[u].store(out.head + u * out.step, at.place, aligned);
    }
  }
}

// rstd over all heads of a token; the thread has all of its units.
template <Checks kChecks, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void compute_row_rstd(const TokenContext<kChecks, kDtype, kStyle>& at,
                                                 unsigned token, bool valid, float* sums,
                                                 const Unit<kDtype, kStyle> (&units)[kUnits],
                                                 float (&rstd)[kUnits]) {
  const HeadsInOut& tensor = at.tensor;
  float sum = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) sum += sum_of_unit_squares(units[u]);
  sum = sum_of_token(sum, tensor.threads_log2, sums);
  rstd[0] = head_rstd(sum, tensor.one_over_count, at.params.eps);
  if (valid && at.thread.index == 0 && tensor.rstd != nullptr) tensor.rstd[token] = rstd[0];
}

// rstd over each head that the thread has a unit of.
template <Checks kChecks, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void compute_head_rstd(const TokenContext<kChecks, kDtype, kStyle>& at,
                                                  unsigned token, int first_head, bool has_unit,
                                                  const Unit<kDtype, kStyle> (&units)[kUnits],
                                                  float (&rstd)[kUnits]) {
  const HeadsInOut& tensor = at.tensor;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const float sum = sum_of_head(sum_of_unit_squares(units[u]), 1 << at.params.shape.units_log2);
    rstd[u] = head_rstd(sum, tensor.one_over_count, at.params.eps);
    const int head = first_head + u * at.thread.head_step;
    if (has_unit && at.thread.unit == 0 && at.has(head) && tensor.rstd != nullptr) {
      tensor.rstd[std::int64_t{token} * tensor.heads + head] = rstd[u];
    }
  }
}

// Rotates the token of this thread, in one tensor.
template <HeadNorm kNorm, int kUnits, Checks kChecks, Dtype kDtype, RopeStyle kStyle>
__device__ __forceinline__ void rotate_token(const HeadsParams& params, const HeadsInOut& tensor,
                                             unsigned block, float* sums) {
  constexpr bool kSimple = kChecks != Checks::all;
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
  const TokenContext<kChecks, kDtype, kStyle> at{params, tensor, thread, place,
                                                 position_of(params.angles, token)};
  int head = thread.head0;
  do {
    // Read
    Unit<kDtype, kStyle> units[kUnits];
    load_units<kNorm != HeadNorm::none>(at, in, head, has_unit, aligned, units);
    // In flight during the norm. The second half is in the same cache lines.
    const CosSinOf4 cos_sin = at.cos_sin(0);

    // Norm
    float rstd[kUnits] = {};
    if constexpr (kNorm == HeadNorm::row) {
      compute_row_rstd(at, token_index, valid, sums, units, rstd);
    } else if constexpr (kNorm == HeadNorm::head) {
      compute_head_rstd(at, token_index, head, has_unit, units, rstd);
    }

    // Rotate and write
    if (has_unit) {
      if (kSimple || kNorm == HeadNorm::none || are_plain<kDtype>(tensor.g)) {
        rotate_units<kNorm, true>(at, head, cos_sin, rstd, units);
      } else {
        rotate_units<kNorm, false>(at, head, cos_sin, rstd, units);
      }
      store_units(at, out, head, aligned, units);
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
  const auto rotate = [&](auto checks) {
    rotate_token<kNorm, kUnits, decltype(checks)::value, kDtype, kStyle>(params, own.tensor,
                                                                         own.block, sums);
  };
  switch (own.tensor.checks) {
    case Checks::none: rotate(Constant<Checks::none>()); break;
    case Checks::heads: rotate(Constant<Checks::heads>()); break;
    case Checks::all: rotate(Constant<Checks::all>()); break;
  }
}

}  // namespace octet::sm90
