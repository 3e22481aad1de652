// Backward of rms_norm_rope on Hopper: dout is rotated back, then the gradient of the norm is taken.
//
// The grid is as large as fits the device. A block takes every n-th group of tokens of q or of k
// (backward_layout.hpp); its threads keep their heads, so that dg accumulates in registers and
// addresses are only added to. Each thread copies its part of the next groups into a ring of its own
// in shared memory. Loaded ahead into registers are rstd and, one group more, the position, on which
// cos and sin depend.
//
// Each block writes one line of partial sums of dg, which device/rows/partial_sums adds in a fixed
// order.
#pragma once

#include "device/rows/thread_ring.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_units.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_walk.cuh"

namespace octet::sm90 {

template <Dtype kDtype, HeadNorm kNorm>
inline constexpr int kBackThreadHeads = kNorm == HeadNorm::row || kDtype == Dtype::f32 ? 1 : 2;
template <Dtype kDtype, HeadNorm kNorm>
inline constexpr int kBackResident = backward_resident_threads(kNorm == HeadNorm::row,
                                                               kElementBytes<kDtype>);

// Sums of warps over a row: those of a token start at a multiple of four and are padded with zeros.
inline constexpr int kBackMostSums = kBackMostThreads / 32 * 4;

template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm>
struct BackRole {
  static constexpr int kHeads = kBackThreadHeads<kDtype, kNorm>;
  static constexpr int kBytes = kElementBytes<kDtype>;
  using Ring = ThreadRing<kDtype, 4 * kHeads>;  // a stage: dout and x of a unit, two eights each

  const HeadGradientParams& params;
  const HeadGradients& tensor;
  const BackThread& thread;
  const UnitPlace<kStyle>& place;
  const UnitGains& gains;

  template <int kCount>
  __device__ TokenWalk<kCount> walk(const HeadsWalk* const (&heads)[kCount]) const {
    const bool idle = thread.first_token >= params.tokens;
    const Token token(idle ? 0 : thread.first_token, params.shape.seq);
    TokenWalk<kCount> result{thread.first_token, static_cast<unsigned>(token.seq), {}};
    for (int i = 0; i < kCount; ++i) {
      const Heads& h = heads[i]->heads;
      result.at[i] =
          static_cast<char*>(h.data) +
          (token.offset(h) + (idle ? 0 : thread.head) * h.strides[2] + place.first) * kBytes;
    }
    return result;
  }

  // Bytes from the first eight of a unit to the second.
  __device__ __forceinline__ int eight_step() const {
    return (place.second - place.first) * kBytes;
  }

  // Copies dout and x of the walk's token into the ring.
  __device__ __forceinline__ void fetch(const Ring& ring, const TokenWalk<2>& walk) const {
    if (walk.token < params.tokens) {
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        if (i > 0 && !thread.has_second) break;
        const char* dout = walk.at[0] + i * tensor.dout.second;
        const char* x = walk.at[1] + i * tensor.x.second;
        if (params.aligned) {
          ring.copy(4 * i, dout);
          ring.copy(4 * i + 1, dout + eight_step());
          ring.copy(4 * i + 2, x);
          ring.copy(4 * i + 3, x + eight_step());
        } else {
#pragma unroll 1
          for (int eight = 0; eight < 4; ++eight) {
            ring.copy_singly(4 * i + eight, (eight < 2 ? dout : x) + eight % 2 * eight_step());
          }
        }
      }
    }
    ring.commit();
  }

  __device__ __forceinline__ std::int64_t position(const TokenWalk<2>& walk) const {
    if (params.angles.positions == nullptr || walk.token >= params.tokens) return walk.seq;
    return position_of(params.angles, Token(walk.token, params.shape.seq));
  }

  __device__ __forceinline__ void store(char* to, const Unit<kDtype, kStyle>& dx) const {
    if (params.aligned) {
      store_eight(to, dx.first);
      store_eight(to + eight_step(), dx.second);
    } else {
      store_singly(to, dx.first, kEight);
      store_singly(to + eight_step(), dx.second, kEight);
    }
  }

  // The sum over the threads whose elements are normed together.
  __device__ __forceinline__ float norm_sum(float product, float* sums) const {
    if constexpr (kNorm == HeadNorm::head) {
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        if (step >= 1 << params.shape.units_log2) break;
        product += __shfl_xor_sync(~0u, product, step);
      }
      return product;
    } else {
      const int warps = tensor.layout.token_threads / 32;
      const int padded = (warps + 3) / 4 * 4;
      float* own = sums + thread.token * padded;
      product = sum_of_lanes(product);
      if (threadIdx.x % 32 == 0) own[thread.index / 32] = product;
      __syncthreads();
      float sum = 0;
#pragma unroll 1
      for (int w = 0; w < padded; w += 4) {
        const float4 four = *reinterpret_cast<const float4*>(own + w);
        sum = sum + four.x + four.y + four.z + four.w;
      }
      return sum;
    }
  }

  __device__ __forceinline__ void load_rstd(unsigned token, float (&rstd)[kHeads]) const {
    if (token >= params.tokens) return;
    const float* from = kNorm == HeadNorm::row
                            ? tensor.rstd + token
                            : tensor.rstd + std::int64_t{token} * tensor.heads + thread.head;
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      if (i == 0 || thread.has_second) rstd[i] = from[i * tensor.layout.slots];
    }
  }

  // All groups of the block, one after the other; adds this thread's part to dg.
  __device__ __forceinline__ void run(Ring ring, float (*sums)[kBackMostSums],
                                      PairsOf4 (&dg)[2]) const {
    const HeadsWalk* const inputs[2] = {&tensor.dout, &tensor.x};
    const HeadsWalk* const output[1] = {&tensor.dx};
    TokenWalk<2> ahead = walk(inputs);
    TokenWalk<1> now = walk(output);
    // Groups 0 and 1 on their way
    fetch(ring, ahead);
    UnitAngles angles;
    if (place.rotated) {
      angles.load(params.angles, cache_row(params.angles, position(ahead)), place.unit);
    }
    ahead.advance(tensor, params.shape.seq, inputs);
    ring.advance();
    fetch(ring, ahead);
    int next_row = cache_row(params.angles, position(ahead));
    ahead.advance(tensor, params.shape.seq, inputs);
    ring.advance();
    float rstd[kHeads] = {};
    load_rstd(ahead.token - 2 * tensor.step_tokens, rstd);

    const auto streams = static_cast<unsigned>(tensor.layout.streams);
    const auto groups = static_cast<unsigned>(tensor.layout.groups);
    int parity = 0;
#pragma unroll 1
    for (unsigned group = thread.stream; group < groups; group += streams) {
      ring.wait();
      const bool has_token = ahead.token - 2 * tensor.step_tokens < params.tokens;
      std::int64_t after_next = 0;  // position
      float next_rstd[kHeads] = {};
      load_rstd(ahead.token - tensor.step_tokens, next_rstd);
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        const bool has = has_token && (i == 0 || thread.has_second);
        GradientUnit<kDtype, kStyle> unit;
        float product = 0;
        if (has) {
          unit.x = {ring.load(4 * i + 2), ring.load(4 * i + 3)};
          product = unit.begin({ring.load(4 * i), ring.load(4 * i + 1)}, place.rotated, angles,
                               gains, rstd[i], dg);
        }
        if (i == kHeads - 1) {  // cos, sin and the stage are used
          if (place.rotated) angles.load(params.angles, next_row, place.unit);
          fetch(ring, ahead);
          after_next = position(ahead);
          ahead.advance(tensor, params.shape.seq, inputs);
          ring.advance();
        }
        const float sum = norm_sum(product, sums[parity]);
        const float k = sum * tensor.one_over_count * rstd[i] * rstd[i];
        if (has) store(now.at[0] + i * tensor.dx.second, unit.dx(rstd[i], k));
      }
      now.advance(tensor, params.shape.seq, output);
      next_row = cache_row(params.angles, after_next);
#pragma unroll
      for (int i = 0; i < kHeads; ++i) rstd[i] = next_rstd[i];
      parity ^= 1;
    }
  }
};

// Adds dg over the threads of the block that have the same columns and stores the block's line. With
// the norm over heads these are the lanes of a warp that have the same unit, then the warps; with the
// norm over a row, the tokens of the group.
template <HeadNorm kNorm, RopeStyle kStyle>
__device__ __forceinline__ void store_partial_sums(const HeadGradientParams& params,
                                                   const HeadGradients& tensor, unsigned block,
                                                   const BackThread& thread,
                                                   const UnitPlace<kStyle>& place,
                                                   PairsOf4 (&dg)[2], float* shared) {
  constexpr bool kByHead = kNorm == HeadNorm::head;
  const HeadShape& shape = params.shape;
  const int columns = (kByHead ? 1 : tensor.heads) * shape.head_dim;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int lines = kByHead ? static_cast<int>(blockDim.x / 32) : tensor.layout.group_tokens;
  bool has = thread.has_unit;
  if constexpr (kByHead) {
    for (int step = 1 << shape.units_log2; step < 32; step *= 2) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        PairsOf4& half = dg[i / 4];
        half.a[i % 4] += __shfl_xor_sync(~0u, half.a[i % 4], step);
        half.b[i % 4] += __shfl_xor_sync(~0u, half.b[i % 4], step);
      }
    }
    has = static_cast<int>(threadIdx.x % 32) < 1 << shape.units_log2 && thread.unit < shape.units;
  }
  __syncthreads();  // the ring is not used any more
  if (has) {
    float* line = shared + (kByHead ? warp : thread.token) * columns;
    line += (kByHead ? 0 : thread.head * shape.head_dim) + place.first;
    store_unit_columns<kStyle>(ptx::shared_address(line), place.second - place.first, dg);
  }
  __syncthreads();
  for (int col = static_cast<int>(threadIdx.x); col < columns;
       col += static_cast<int>(blockDim.x)) {
    float sum = shared[col];
    for (int line = 1; line < lines; ++line) sum += shared[line * columns + col];
    tensor.partials[std::int64_t{block} * columns + col] = sum;
  }
}

// Brings the weights of a thread's unit into shared memory; the threads of one token do it for all.
template <Dtype kDtype, HeadNorm kNorm, RopeStyle kStyle>
__device__ __forceinline__ void load_gains(const HeadGradientParams& params,
                                           const HeadGradients& tensor, const BackThread& thread,
                                           const UnitPlace<kStyle>& place, const UnitGains& gains) {
  if (thread.token > 0 || thread.unit >= params.shape.units || thread.head >= tensor.heads) return;
  const int at = kNorm == HeadNorm::head ? 0 : thread.head * params.shape.head_dim;
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    gains.store(half,
                load_unit_gains<kDtype, false>(tensor.g, params.one_plus_weight, at, place, half));
  }
}

template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm>
__global__ __launch_bounds__((kBackResident<kDtype, kNorm>)) void rotate_heads_back_kernel(
    const __grid_constant__ HeadGradientParams params) {
  using Role = BackRole<kDtype, kStyle, kNorm>;
  __shared__ __align__(16) float sums[2][kBackMostSums];
  // The weights, then the ring; at the end lines of dg.
  extern __shared__ __align__(128) unsigned char storage[];
  const auto [tensor, block] = tensor_of_block(params.tensors);
  const BackThread thread(params.shape, tensor, block);
  const UnitPlace<kStyle> place(params.shape, thread.unit < params.shape.units ? thread.unit : 0,
                                false);
  const int gain_units =
      kNorm == HeadNorm::head ? 1 << params.shape.units_log2 : static_cast<int>(blockDim.x);
  const int gain_unit = kNorm == HeadNorm::head ? thread.unit : thread.index;
  const UnitGains gains{ptx::shared_address(storage) + 16u * static_cast<std::uint32_t>(gain_unit),
                        16u * static_cast<std::uint32_t>(gain_units)};
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * kBackMostSums;
       i += static_cast<int>(blockDim.x)) {
    sums[0][i] = 0;
  }
  ptx::wait_for_earlier_kernels();
  if (static_cast<int>(threadIdx.x) < gain_units) {
    load_gains<kDtype, kNorm>(params, tensor, thread, place, gains);
  }
  __syncthreads();

  PairsOf4 dg[2] = {};
  const Role role{params, tensor, thread, place, gains};
  role.run(typename Role::Ring(storage + kGainBytes * gain_units), sums, dg);
  ptx::let_next_kernel_start();
  store_partial_sums<kNorm>(params, tensor, block, thread, place, dg,
                            reinterpret_cast<float*>(storage));
}

}  // namespace octet::sm90
