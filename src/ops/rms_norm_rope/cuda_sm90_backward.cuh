// Backward of rms_norm_rope on Hopper: dout is rotated back, then the gradient of the norm is taken.
//
// The grid is as large as fits the device. A block takes every n-th group of tokens of q or of k
// (backward_layout.hpp); its threads keep their heads, so that dg accumulates in registers and
// addresses are only added to. Each thread copies its part of the next groups into a ring of its own
// in shared memory. rstd is loaded ahead into registers; cos and sin are ahead as well
// (cuda_sm90_backward_angles.cuh).
//
// Each block writes one line of partial sums of dg, which device/rows/partial_sums adds in a fixed
// order.
#pragma once

#include "device/rows/thread_ring.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_angles.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_units.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_walk.cuh"

namespace octet::sm90 {

template <Dtype kDtype, HeadNorm kNorm>
inline constexpr int kBackThreadHeads = kNorm == HeadNorm::row || kDtype == Dtype::f32 ? 1 : 2;
template <Dtype kDtype, HeadNorm kNorm>
inline constexpr int kBackResident = backward_resident_threads(kNorm == HeadNorm::row,
                                                               kElementBytes<kDtype>);

// Sums of warps over a row: those of a token start at a multiple of eight and are padded with zeros.
inline constexpr int kBackMostSums = kBackMostThreads / 32 * 8;
inline constexpr std::uint32_t kBackSumBytes = kBackMostSums * 4;

template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm>
struct BackRole {
  static constexpr int kHeads = kBackThreadHeads<kDtype, kNorm>;
  static constexpr int kBytes = kElementBytes<kDtype>;
  static constexpr int kStages = backward_stages(kNorm == HeadNorm::row, kBytes);
  using Ring = ThreadRing<kDtype, 4 * kHeads, kStages>;  // a stage: dout and x of a unit

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

  // Copies dout and x of the walk's token into a stage of the ring.
  __device__ __forceinline__ void fetch(const Ring& ring, int stage,
                                        const TokenWalk<2>& walk) const {
    if (walk.token < params.tokens) {
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        if (i > 0 && !thread.has_second) break;
        const char* dout = walk.at[0] + i * tensor.dout.second;
        const char* x = walk.at[1] + i * tensor.x.second;
        if (params.aligned) {
          ring.copy(stage, 4 * i, dout);
          ring.copy(stage, 4 * i + 1, dout + eight_step());
          ring.copy(stage, 4 * i + 2, x);
          ring.copy(stage, 4 * i + 3, x + eight_step());
        } else {
          // Hidden from the compiler, which would have the walk carry them twice for this loop.
          asm volatile("" : "+l"(dout), "+l"(x));
#pragma unroll 1
          for (int eight = 0; eight < 2; ++eight) {
            ring.copy_singly(stage, 4 * i + eight, dout + eight * eight_step());
            ring.copy_singly(stage, 4 * i + 2 + eight, x + eight * eight_step());
          }
        }
      }
    }
    ring.commit();
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

  // The sum over the threads whose elements are normed together. By rows `sums` is the address of the
  // token's sums of warps in shared memory.
  __device__ __forceinline__ float norm_sum(float product, std::uint32_t sums) const {
    if constexpr (kNorm == HeadNorm::head) {
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        if (step >= 1 << params.shape.units_log2) break;
        product += __shfl_xor_sync(~0u, product, step);
      }
      return product;
    } else {
      product = sum_of_lanes(product);
      const auto index = static_cast<std::uint32_t>(thread.index);
      if (index % 32 == 0) ptx::store_shared(sums + index / 8, __float_as_uint(product));
      __syncthreads();
      float sum = 0;
#pragma unroll 1
      for (int w = 0; w < tensor.layout.row_sums; w += 8) {
        float four[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          ptx::load_shared(sums + 4 * w + 16 * i, four[i][0], four[i][1], four[i][2], four[i][3]);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += four[i / 4][i % 4];
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

  __device__ __forceinline__ Unit<kDtype, kStyle> load_x(const Ring& ring, int head) const {
    return {ring.load(4 * head + 2), ring.load(4 * head + 3)};
  }

  // All groups of the block, one after the other; adds this thread's part to dg. By heads.
  __device__ __forceinline__ void run(Ring ring, HeldAngles angles, PairsOf4 (&dg)[2]) const {
    const HeadsWalk* const inputs[2] = {&tensor.dout, &tensor.x};
    const HeadsWalk* const output[1] = {&tensor.dx};
    TokenWalk<2> ahead = walk(inputs);
    TokenWalk<1> now = walk(output);
    // Groups 0 and 1 on their way
    angles.start(ahead);
    fetch(ring, 0, ahead);
    ahead.advance(tensor, params.shape.seq, inputs);
    angles.start_second(ahead);
    fetch(ring, 1, ahead);
    ahead.advance(tensor, params.shape.seq, inputs);
    float rstd[kHeads] = {};
    load_rstd(now.token, rstd);

    const auto streams = static_cast<unsigned>(tensor.layout.streams);
    const auto groups = static_cast<unsigned>(tensor.layout.groups);
#pragma unroll 1
    for (unsigned group = thread.stream; group < groups; group += streams) {
      ring.template wait_but<1>();
      const bool has_token = now.token < params.tokens;
      float next_rstd[kHeads] = {};
      load_rstd(now.token + tensor.step_tokens, next_rstd);
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        const bool has = has_token && (i == 0 || thread.has_second);
        GradientUnit<kDtype, kStyle> unit;
        Unit<kDtype, kStyle> x;
        float product = 0;
        if (has) {
          x = load_x(ring, i);
          product = unit.begin({ring.load(4 * i), ring.load(4 * i + 1)}, x, place.rotated, angles,
                               gains, rstd[i], dg);
        }
        if (i == kHeads - 1) {  // cos, sin and the stage are used
          angles.advance(ahead);
          fetch(ring, ring.stage, ahead);
          ahead.advance(tensor, params.shape.seq, inputs);
          ring.advance();
        }
        const float sum = norm_sum(product, 0);
        const float k = sum * tensor.one_over_count * rstd[i] * rstd[i];
        if (has) store(now.at[0] + i * tensor.dx.second, unit.dx(x, rstd[i], k));
      }
      now.advance(tensor, params.shape.seq, output);
      angles.finish();
#pragma unroll
      for (int i = 0; i < kHeads; ++i) rstd[i] = next_rstd[i];
    }
  }

  // The same by rows. With three stages the next copies are under way before a group is begun. `sums`:
  // the address of two lists of sums of warps, which take turns.
  __device__ __forceinline__ void run(Ring ring, SharedAngles angles, std::uint32_t sums,
                                      PairsOf4 (&dg)[2]) const {
    constexpr bool kThree = kStages == 3;
    const HeadsWalk* const inputs[2] = {&tensor.dout, &tensor.x};
    const HeadsWalk* const output[1] = {&tensor.dx};
    TokenWalk<2> ahead = walk(inputs);
    TokenWalk<1> now = walk(output);
    const auto fetch_next = [&](int stage) {
      fetch(ring, stage, ahead);
      ahead.advance(tensor, params.shape.seq, inputs);
    };
    // Groups 0 and 1 on their way, with the angles of 0 and 1, and of 2
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
      angles.copy(static_cast<unsigned>(i));
      if (i > 0) fetch_next(i - 1);
    }
    float rstd[1] = {};
    load_rstd(now.token, rstd);
    ring.template wait_but<1>();
    __syncthreads();  // publishes the angles of group 0

    const auto streams = static_cast<unsigned>(tensor.layout.streams);
    const auto groups = static_cast<unsigned>(tensor.layout.groups);
    sums += 4u * static_cast<std::uint32_t>(thread.token * tensor.layout.row_sums);
    ptx::keep(sums);
    std::uint32_t turn = 0;  // 0, or the bytes of a list
#pragma unroll 1
    for (unsigned group = thread.stream; group < groups; group += streams) {
      if constexpr (kThree) {
        angles.copy(3);
        fetch_next(ring.stage_after(2));
      }
      ring.template wait_but<kStages - 1>();
      const bool has = now.token < params.tokens;
      float next_rstd[1] = {};
      load_rstd(now.token + tensor.step_tokens, next_rstd);
      GradientUnit<kDtype, kStyle> unit;
      Unit<kDtype, kStyle> x;
      float product = 0;
      if (has) {
        x = load_x(ring, 0);
        product =
            unit.begin({ring.load(0), ring.load(1)}, x, place.rotated, angles, gains, rstd[0], dg);
      }
      if constexpr (!kThree) {  // the stage is used
        angles.copy(3);
        fetch_next(ring.stage);
      }
      angles.advance();
      const float sum = norm_sum(product, sums + turn);
      const float k = sum * tensor.one_over_count * rstd[0] * rstd[0];
      if (has) {
        if constexpr (kThree) x = load_x(ring, 0);  // its registers were free in between
        store(now.at[0], unit.dx(x, rstd[0], k));
      }
      ring.advance();
      now.advance(tensor, params.shape.seq, output);
      rstd[0] = next_rstd[0];
      turn ^= kBackSumBytes;
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

// A block of one tensor. In `storage` are the weights, then the ring, then the angles; at the end,
// lines of dg.
template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm>
__device__ __forceinline__ void rotate_heads_back(const HeadGradientParams& params,
                                                  const HeadGradients& tensor, unsigned block,
                                                  std::uint32_t sums, unsigned char* storage) {
  using Role = BackRole<kDtype, kStyle, kNorm>;
  using Ring = typename Role::Ring;
  const BackThread thread(params.shape, tensor, block);
  const UnitPlace<kStyle> place(params.shape, thread.unit < params.shape.units ? thread.unit : 0,
                                false);
  const int gain_units =
      kNorm == HeadNorm::head ? 1 << params.shape.units_log2 : static_cast<int>(blockDim.x);
  const int gain_unit = kNorm == HeadNorm::head ? thread.unit : thread.index;
  const UnitGains gains{ptx::shared_address(storage) + 16u * static_cast<std::uint32_t>(gain_unit),
                        16u * static_cast<std::uint32_t>(gain_units)};
  if (static_cast<int>(threadIdx.x) < gain_units) {
    load_gains<kDtype, kNorm>(params, tensor, thread, place, gains);
  }
  __syncthreads();

  PairsOf4 dg[2] = {};
  const Role role{params, tensor, thread, place, gains};
  unsigned char* ring_storage = storage + kGainBytes * gain_units;
  if constexpr (kNorm == HeadNorm::head) {
    role.run(Ring(ring_storage), HeldAngles{params, place.unit, place.rotated}, dg);
  } else {
    const std::uint32_t angles =
        ptx::shared_address(ring_storage) + Ring::kBytesPerThread * blockDim.x;
    role.run(Ring(ring_storage), SharedAngles(params, tensor, thread, angles), sums, dg);
  }
  ptx::let_next_kernel_start();
  store_partial_sums<kNorm>(params, tensor, block, thread, place, dg,
                            reinterpret_cast<float*>(storage));
}

// q and k have code of their own: what the loop needs of a tensor's parameters are operands then,
// neither registers nor loads at a place known at run time.
template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm>
__global__ __launch_bounds__((kBackResident<kDtype, kNorm>)) void rotate_heads_back_kernel(
    const __grid_constant__ HeadGradientParams params) {
  __shared__ __align__(16) float sums[2][kBackMostSums];
  extern __shared__ __align__(128) unsigned char storage[];
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * kBackMostSums;
       i += static_cast<int>(blockDim.x)) {
    sums[0][i] = 0;
  }
  ptx::wait_for_earlier_kernels();
  const unsigned first_blocks = params.tensors[0].blocks;
  const std::uint32_t sums_at = ptx::shared_address(sums);
  if (blockIdx.x < first_blocks) {
    rotate_heads_back<kDtype, kStyle, kNorm>(params, params.tensors[0], blockIdx.x, sums_at,
                                             storage);
  } else {
    rotate_heads_back<kDtype, kStyle, kNorm>(params, params.tensors[1], blockIdx.x - first_blocks,
                                             sums_at, storage);
  }
}

}  // namespace octet::sm90
