// cos and sin for rms_norm_rope backward on Hopper. With the norm over heads a thread holds those of
// its unit, which serve two heads. With the norm over a row every head of a token needs the same: the
// first threads of the token copy them into shared memory, and the barrier that every token has
// anyway publishes them.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "ops/rms_norm_rope/cuda_sm90_backward_walk.cuh"

namespace octet::sm90 {

// The row of a position in the caches of cos and sin, or a negative number if they do not have it.
__device__ __forceinline__ int cache_row(const Angles& angles, std::int64_t position) {
  return has_position(angles, position) ? static_cast<int>(position) : -1;
}

// cos and sin of a unit, in registers: those of a group are loaded once the group before it has used
// its own, and the position of the group after it at the same time.
struct HeldAngles {
  const HeadGradientParams& params;
  int unit;
  bool rotated;
  int next_row = 0;
  std::int64_t after_next = 0;  // position
  CosSinOf4 halves[2];

  __device__ __forceinline__ CosSinOf4 half(int i) const { return halves[i]; }

  __device__ __forceinline__ std::int64_t position(const TokenWalk<2>& walk) const {
    if (params.angles.positions == nullptr || walk.token >= params.tokens) return walk.seq;
    return position_of(params.angles, Token(walk.token, params.shape.seq));
  }

  // `walk` is at group 0, then 1, then at the group after the next.
  __device__ __forceinline__ void start(const TokenWalk<2>& walk) {
    if (rotated) load(cache_row(params.angles, position(walk)));
  }
  __device__ __forceinline__ void start_second(const TokenWalk<2>& walk) {
    next_row = cache_row(params.angles, position(walk));
  }
  __device__ __forceinline__ void advance(const TokenWalk<2>& walk) {
    if (rotated) load(next_row);
    after_next = position(walk);
  }
  // Some time later, when the position is there.
  __device__ __forceinline__ void finish() { next_row = cache_row(params.angles, after_next); }

  // With angles.vectors, pitches and rows fit 32 bits.
  __device__ __forceinline__ void load(int row) {
    const Angles& angles = params.angles;
    if (angles.vectors && row >= 0) {
      const auto* cos = static_cast<const float*>(angles.cos) + unit * kPairs;
      const auto* sin = static_cast<const float*>(angles.sin) + unit * kPairs;
      cos += std::int64_t{row} * static_cast<int>(angles.cos_pitch);
      sin += std::int64_t{row} * static_cast<int>(angles.sin_pitch);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 c = *reinterpret_cast<const float4*>(cos + 4 * i);
        const float4 s = *reinterpret_cast<const float4*>(sin + 4 * i);
        halves[i] = {{c.x, c.y, c.z, c.w}, {s.x, s.y, s.z, s.w}};
      }
      return;
    }
    // A loop: it is rare, and unrolled it takes registers from the other branch.
#pragma unroll 1
    for (int pair = 0; pair < kPairs; ++pair) {
      const CosSin one = row >= 0 ? load_cos_sin(angles, row, unit * kPairs + pair) : nan_cos_sin();
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (i == pair) halves[i / 4].set(i % 4, one);
      }
    }
  }
};

// cos and sin of a block's tokens in slots of shared memory (backward_layout.hpp). Those of group
// g + 1 are copied together with the heads of group g, so that they have arrived when their thread
// has waited for these, and the barrier of group g publishes them. The slot of group g - 1 is written
// again in group g: all threads have read it before the barrier of group g - 1.
struct SharedAngles {
  const HeadGradientParams& params;
  const HeadGradients& tensor;
  int index;              // of this thread in its token, or beyond all vectors if it has no token
  int token;              // of this thread in its group
  std::int64_t position;  // for the next copy, loaded at the copy before it
  std::uint32_t address;  // of the first vector of the thread's unit, in the first slot
  unsigned slot = 0;      // of the group in use
  unsigned group;         // of the next copy

  __device__ SharedAngles(const HeadGradientParams& params_, const HeadGradients& tensor_,
                          const BackThread& thread, std::uint32_t storage)
      : params(params_), tensor(tensor_), token(thread.token), group(thread.stream) {
    const BackwardAngles& layout = params.angle_layout;
    index = token < tensor.layout.group_tokens ? thread.index : layout.vectors;
    address = storage + static_cast<std::uint32_t>(token * layout.token_bytes + 16 * thread.unit);
    load_position(token_of(group));
  }

  __device__ __forceinline__ CosSinOf4 half(int i) const {
    const std::uint32_t from = address + slot * tensor.angle_slot_bytes;
    const auto step = static_cast<std::uint32_t>(params.angle_layout.unit_step);
    CosSinOf4 result;
    ptx::load_shared(from + i * step, result.cos[0], result.cos[1], result.cos[2], result.cos[3]);
    ptx::load_shared(from + (2 + i) * step, result.sin[0], result.sin[1], result.sin[2],
                     result.sin[3]);
    return result;
  }

  // Copies the thread's part of the next group, which is `ahead` groups after that in use.
  __device__ __forceinline__ void copy(unsigned ahead) {
    const int vectors = params.angle_layout.vectors;
    const unsigned next = group + static_cast<unsigned>(tensor.layout.streams);
    if (index < vectors) {
      if (token_of(group) < params.tokens) {
        const int row = cache_row(params.angles, position);
        const int unit = index & ((1 << params.shape.units_log2) - 1);
        const std::uint32_t to = address - 16u * static_cast<std::uint32_t>(unit) +
                                 (slot + ahead) % kBackAngleSlots * tensor.angle_slot_bytes;
#pragma unroll 1
        for (int i = index; i < vectors; i += tensor.layout.token_threads) {
          copy_vector(row, i, to + 16u * static_cast<std::uint32_t>(i));
        }
      }
      load_position(token_of(next));
    }
    group = next;
  }
  __device__ __forceinline__ void advance() { slot = (slot + 1) % kBackAngleSlots; }

 private:
  __device__ __forceinline__ unsigned token_of(unsigned of_group) const {
    return of_group * static_cast<unsigned>(tensor.layout.group_tokens) +
           static_cast<unsigned>(token);
  }
  __device__ __forceinline__ void load_position(unsigned of) {
    position = 0;
    if (of < params.tokens) position = position_of(params.angles, Token(of, params.shape.seq));
  }

  __device__ __forceinline__ void copy_vector(int row, int i, std::uint32_t to) const {
    const Angles& angles = params.angles;
    const BackwardAngleVector vector = backward_angle_vector(params.shape.units_log2, i);
    if (vector.unit * kUnitElements >= params.shape.rotary_dim) return;
    const int pair = vector.unit * kPairs + vector.pair;
    if (angles.vectors && row >= 0) {
      const auto pitch = static_cast<int>(vector.is_sin ? angles.sin_pitch : angles.cos_pitch);
      const auto* from = static_cast<const float*>(vector.is_sin ? angles.sin : angles.cos);
      ptx::copy_16_bytes(to, from + std::int64_t{row} * pitch + pair);
      return;
    }
#pragma unroll 1
    for (int p = 0; p < 4; ++p) {
      const CosSin one = row >= 0 ? load_cos_sin(angles, row, pair + p) : nan_cos_sin();
      ptx::store_shared(to + 4 * p, __float_as_uint(vector.is_sin ? one.sin : one.cos));
    }
  }
};

}  // namespace octet::sm90
