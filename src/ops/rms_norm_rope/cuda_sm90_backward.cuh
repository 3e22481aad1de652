// Backward of rms_norm_rope on Hopper: dout is rotated back, then the gradient of the norm is
// taken.
//
// Each of n blocks takes every n-th token of q or k and accumulates dg in registers. With the norm
// over a row, a column of dg belongs to one thread. With the norm over a head, it belongs to all
// threads that have the same unit, which are added in shared memory at the end. Each block writes
// one line of partial sums, which device/rows/partial_sums adds in a fixed order.
#pragma once

#include "ops/rope/cuda_sm90_heads.cuh"

namespace octet::sm90 {

inline constexpr int kHeadGradientThreads = 512;  // of a block, at most

// One of q and k.
struct HeadGradients {
  Heads dout;
  Heads x;
  Heads dx;
  Weights g;
  const float* rstd;
  float* partials;  // [blocks, columns of dg]
  int heads;
  float one_over_count;
  unsigned blocks;
};

struct HeadGradientParams {
  HeadGradients tensors[2];
  Angles angles;  // of the inverse rotation
  HeadShape shape;
  unsigned tokens;
  int threads_log2;  // of the block
  bool one_plus_weight;
  bool aligned;
};

// A unit of dout, and the same unit of x.
template <Dtype kDtype, RopeStyle kStyle>
struct GradientUnit {
  Unit<kDtype, kStyle> dout;
  Unit<kDtype, kStyle> x;

  // dn, the gradient of the norm's output: dout rotated back.
  __device__ __forceinline__ PairsOf4 rotated_back(int half, bool rotated,
                                                   const CosSinOf4& cos_sin) const {
    PairsOf4 dn = dout.pairs(half);
    if (rotated) dn.rotate(cos_sin);
    return dn;
  }
};

__device__ __forceinline__ float sum_of_products(const PairsOf4& dn, const PairsOf4& w,
                                                 const PairsOf4& x) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = __fmaf_rn(dn.a[i] * w.a[i], x.a[i], sum);
    sum = __fmaf_rn(dn.b[i] * w.b[i], x.b[i], sum);
  }
  return sum;
}

// dx of four pairs; adds their part to dg.
__device__ __forceinline__ PairsOf4 norm_gradient(const PairsOf4& dn, const PairsOf4& w,
                                                  const PairsOf4& x, float rstd, float k,
                                                  PairsOf4& dg) {
  PairsOf4 dx;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    dx.a[i] = __fmul_rn(__fmaf_rn(-x.a[i], k, dn.a[i] * w.a[i]), rstd);
    dx.b[i] = __fmul_rn(__fmaf_rn(-x.b[i], k, dn.b[i] * w.b[i]), rstd);
    dg.a[i] = __fmaf_rn(dn.a[i], x.a[i] * rstd, dg.a[i]);
    dg.b[i] = __fmaf_rn(dn.b[i], x.b[i] * rstd, dg.b[i]);
  }
  return dx;
}

// Stores the columns of half a unit, whose head starts at column `at`.
template <RopeStyle kStyle>
__device__ __forceinline__ void store_unit_columns(float* line, int at, int half,
                                                   const UnitPlace<kStyle>& place,
                                                   const PairsOf4& dg) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kStyle == RopeStyle::rotate_half) {
      line[at + place.first + 4 * half + i] = dg.a[i];
      line[at + place.second + 4 * half + i] = dg.b[i];
    } else {
      const int col = at + (half == 0 ? place.first : place.second) + 2 * i;
      line[col] = dg.a[i];
      line[col + 1] = dg.b[i];
    }
  }
}

// Adds dg over the threads of a block that have the same unit, in their order; the first gets the
// sum.
__device__ __forceinline__ PairsOf4 sum_over_heads(const PairsOf4& dg, const UnitThread& thread,
                                                   const HeadShape& shape, PairsOf4* shared) {
  __syncthreads();
  shared[threadIdx.x] = dg;
  __syncthreads();
  PairsOf4 sum = dg;
  if (thread.head0 != 0) return sum;
  for (int other = 1; other < thread.head_step; ++other) {
    const PairsOf4& more = shared[(other << shape.units_log2) + thread.unit];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum.a[i] += more.a[i];
      sum.b[i] += more.b[i];
    }
  }
  return sum;
}

// Sums dn * w * x over each unit of a thread. `has(u)`: the thread has a head for unit u.
template <Dtype kDtype, RopeStyle kStyle, int kUnits, class Has, class LoadCosSin, class LoadGains>
__device__ __forceinline__ void sum_unit_products(
    const GradientUnit<kDtype, kStyle> (&units)[kUnits], bool has_unit, bool rotated,
    const Has& has, const LoadCosSin& cos_sin_of, const LoadGains& gains,
    float (&products)[kUnits]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!has_unit) continue;
    const CosSinOf4 cos_sin = cos_sin_of(half);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!has(u)) continue;
      products[u] += sum_of_products(units[u].rotated_back(half, rotated, cos_sin), gains(u, half),
                                     units[u].x.pairs(half));
    }
  }
}

// The tokens of a block, one after the other; each thread adds its part to dg.
template <HeadNorm kNorm, bool kPlain, int kUnits, Dtype kDtype, RopeStyle kStyle, int kSums>
__device__ __forceinline__ void rotate_tokens_back(const HeadGradientParams& params,
                                                   const HeadGradients& tensor, unsigned block,
                                                   const UnitThread& thread,
                                                   const UnitPlace<kStyle>& place, bool has_unit,
                                                   float (*sums)[kHeadGradientThreads / 32],
                                                   PairsOf4 (&dg)[kSums][2]) {
  const HeadShape& shape = params.shape;
  int parity = 0;
  for (unsigned token_index = block; token_index < params.tokens; token_index += tensor.blocks) {
    const Token token(token_index, shape.seq);
    const std::int64_t position = position_of(params.angles, token);
    HeadPointer<kDtype> dout(tensor.dout, token, thread);
    HeadPointer<kDtype> x(tensor.x, token, thread);
    HeadPointer<kDtype> dx(tensor.dx, token, thread);
    int head = thread.head0;
    do {
      // Read
      GradientUnit<kDtype, kStyle> units[kUnits];
      float products[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        units[u] = {};
        products[u] = 0;
        if (has_unit && head + u * thread.head_step < tensor.heads) {
          units[u].dout.template load<true>(dout.head + u * dout.step, place, params.aligned);
          units[u].x.template load<true>(x.head + u * x.step, place, params.aligned);
        }
      }
      const auto has = [&](int u) { return head + u * thread.head_step < tensor.heads; };
      const auto gains = [&](int u, int half) {
        const int own_head = head + u * thread.head_step;
        return load_unit_gains<kDtype, kPlain>(
            tensor.g, params.one_plus_weight,
            kNorm == HeadNorm::row ? own_head * shape.head_dim : 0, place, half);
      };
      const auto cos_sin_of = [&](int half) {
        return load_unit_cos_sin<false>(params.angles, position, place.rotated, thread.unit, half);
      };

      // Sums over the elements that are normed together
      sum_unit_products(units, has_unit, place.rotated, has, cos_sin_of, gains, products);
      float rstd[kUnits];
      float k[kUnits];
      if constexpr (kNorm == HeadNorm::row) {
        float sum = 0;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) sum += products[u];
        sum = sum_of_token(sum, params.threads_log2, sums[parity]);
        parity ^= 1;
        rstd[0] = tensor.rstd[token_index];
        k[0] = sum * tensor.one_over_count * rstd[0] * rstd[0];
      } else {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          const int own_head = head + u * thread.head_step;
          const float sum = sum_of_head(products[u], 1 << shape.units_log2);
          rstd[u] = own_head < tensor.heads
                        ? tensor.rstd[std::int64_t{token_index} * tensor.heads + own_head]
                        : 0.0f;
          k[u] = sum * tensor.one_over_count * rstd[u] * rstd[u];
        }
      }

      // Gradients
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!has_unit) continue;
        const CosSinOf4 cos_sin = cos_sin_of(half);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          if (head + u * thread.head_step >= tensor.heads) continue;
          const int s = kNorm == HeadNorm::row ? 0 : u;
          const PairsOf4 dn = units[u].rotated_back(half, place.rotated, cos_sin);
          units[u].dout.set_pairs(
              half, norm_gradient(dn, gains(u, half), units[u].x.pairs(half), rstd[s], k[s],
                                  dg[kNorm == HeadNorm::row ? u : 0][half]));
        }
      }
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (has_unit && head + u * thread.head_step < tensor.heads) {
          units[u].dout.store(dx.head + u * dx.step, place, params.aligned);
        }
      }
      head += kUnits * thread.head_step;
      dout.head += kUnits * dout.step;
      x.head += kUnits * x.step;
      dx.head += kUnits * dx.step;
    } while (kNorm != HeadNorm::row && __any_sync(~0u, head < tensor.heads));
  }
}

// Stores the block's line of partial sums of dg.
template <HeadNorm kNorm, RopeStyle kStyle, int kSums>
__device__ __forceinline__ void store_partial_sums(const HeadGradientParams& params,
                                                   const HeadGradients& tensor, unsigned block,
                                                   const UnitThread& thread,
                                                   const UnitPlace<kStyle>& place, bool has_unit,
                                                   const PairsOf4 (&dg)[kSums][2],
                                                   PairsOf4* shared) {
  const HeadShape& shape = params.shape;
  if constexpr (kNorm == HeadNorm::row) {
    float* line = tensor.partials + std::int64_t{block} * tensor.heads * shape.head_dim;
#pragma unroll
    for (int u = 0; u < kSums; ++u) {
      const int head = thread.head0 + u * thread.head_step;
      if (!has_unit || head >= tensor.heads) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store_unit_columns(line, head * shape.head_dim, half, place, dg[u][half]);
      }
    }
  } else {
    float* line = tensor.partials + std::int64_t{block} * shape.head_dim;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PairsOf4 sum = sum_over_heads(dg[0][half], thread, shape, shared);
      if (has_unit && thread.head0 == 0) store_unit_columns(line, 0, half, place, sum);
    }
  }
}

template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm, int kUnits>
__global__ __launch_bounds__(kHeadGradientThreads) void rotate_heads_back_kernel(
    const __grid_constant__ HeadGradientParams params) {
  __shared__ float sums[2][kHeadGradientThreads / 32];
  // One PairsOf4 per thread, with the norm over heads.
  extern __shared__ __align__(16) unsigned char shared_pairs[];
  const auto [tensor, block] = tensor_of_block(params.tensors);
  const HeadShape& shape = params.shape;
  const UnitThread thread(shape, params.threads_log2);
  const bool has_unit = thread.unit < shape.units;
  const UnitPlace<kStyle> place(shape, has_unit ? thread.unit : 0, false);
  constexpr int kSums = kNorm == HeadNorm::row ? kUnits : 1;
  PairsOf4 dg[kSums][2] = {};
  ptx::wait_for_earlier_kernels();

  if (are_plain<kDtype>(tensor.g)) {
    rotate_tokens_back<kNorm, true, kUnits, kDtype>(params, tensor, block, thread, place, has_unit,
                                                    sums, dg);
  } else {
    rotate_tokens_back<kNorm, false, kUnits, kDtype>(params, tensor, block, thread, place, has_unit,
                                                     sums, dg);
  }

  store_partial_sums<kNorm>(params, tensor, block, thread, place, has_unit, dg,
                            reinterpret_cast<PairsOf4*>(shared_pairs));
}

}  // namespace octet::sm90
