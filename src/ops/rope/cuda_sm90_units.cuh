// Heads in units of eight pairs, as the Hopper kernels of rope and rms_norm_rope take them: 16
// elements of a head, two vectors of eight, so that both elements of every pair are in one thread.
//
//   unit j of a head   rotate_half: elements 8j ... 8j + 7 and as many rotary_dim / 2 behind them
//                      interleaved, and what is not rotated: elements 16j ... 16j + 15
//
// The units of a head are padded to a power of two, so that they are neighbouring lanes of a warp
// and a thread has the same unit of every head it comes to: it reads cos and sin once per token.
#pragma once

#include "device/rows/eight.cuh"

#include <octet/ops/rope.hpp>

namespace octet::sm90 {

inline constexpr int kPairs = 8;  // of a unit
inline constexpr int kUnitElements = 16;

// The heads of one tensor [batch, seq, heads, head_dim].
struct Heads {
  void* data;
  std::int64_t strides[3];  // elements: batch, seq, head
};

struct Angles {
  const void* cos;  // [rows, half or all of rotary_dim]
  const void* sin;
  Dtype dtype;
  std::int64_t cos_pitch;  // elements
  std::int64_t sin_pitch;
  std::int64_t rows;
  int pair_step;  // columns from one pair to the next: 2 in a full cache of interleaved pairs
  bool vectors;   // f32, pairs side by side, rows on 16-byte boundaries
  const void* positions;  // [batch, seq], or null
  bool wide_positions;    // i64
  std::int64_t position_strides[2];
  bool inverse;
};

struct HeadShape {
  unsigned seq;
  int head_dim;
  int rotary_dim;
  int units;       // of a head
  int units_log2;  // of a head, padded to a power of two
};

// q or k, whichever this block works on, and the block's number among those that do.
template <class Tensor>
struct TensorOfBlock {
  const Tensor& tensor;
  unsigned block;
};
template <class Tensor>
__device__ __forceinline__ TensorOfBlock<Tensor> tensor_of_block(const Tensor (&tensors)[2]) {
  const bool is_second = blockIdx.x >= tensors[0].blocks;
  return {tensors[is_second], blockIdx.x - (is_second ? tensors[0].blocks : 0)};
}

struct Token {
  std::int64_t batch;
  std::int64_t seq;

  __device__ Token(unsigned token, unsigned seq_length)
      : batch(token / seq_length), seq(token % seq_length) {}
  __device__ std::int64_t offset(const Heads& heads) const {
    return batch * heads.strides[0] + seq * heads.strides[1];
  }
};

__device__ __forceinline__ std::int64_t position_of(const Angles& angles, const Token& token) {
  if (angles.positions == nullptr) return token.seq;
  const std::int64_t at =
      token.batch * angles.position_strides[0] + token.seq * angles.position_strides[1];
  return angles.wide_positions ? static_cast<const std::int64_t*>(angles.positions)[at]
                               : static_cast<const std::int32_t*>(angles.positions)[at];
}

__device__ __forceinline__ float element_value(const void* cache, std::int64_t index, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return f32_from_bf16(static_cast<const std::uint16_t*>(cache)[index]);
    case Dtype::f16: return ptx::f32_from_f16_bits(static_cast<const std::uint16_t*>(cache)[index]);
    default: return static_cast<const float*>(cache)[index];
  }
}

// cos and sin of one pair at one position.
struct Turn {
  float cos;
  float sin;
};
__device__ __forceinline__ Turn load_turn(const Angles& angles, std::int64_t position, int pair) {
  const std::int64_t col = std::int64_t{pair} * angles.pair_step;
  const float sin = element_value(angles.sin, position * angles.sin_pitch + col, angles.dtype);
  return {element_value(angles.cos, position * angles.cos_pitch + col, angles.dtype),
          angles.inverse ? -sin : sin};
}

// Whether the caches have a position; where they do not, what is rotated becomes NaN.
__device__ __forceinline__ bool has_position(const Angles& angles, std::int64_t position) {
  return position >= 0 && position < angles.rows;
}
__device__ __forceinline__ Turn no_turn() { return {__int_as_float(0x7FFFFFFF), 0.0f}; }

// Of four pairs side by side.
struct Turns {
  float cos[4];
  float sin[4];

  __device__ __forceinline__ void set(int i, const Turn& turn) {
    cos[i] = turn.cos;
    sin[i] = turn.sin;
  }
};

// kVectors: angles.vectors is known to be true.
template <bool kVectors>
__device__ __forceinline__ Turns load_turns(const Angles& angles, std::int64_t position,
                                            int first_pair) {
  Turns turns;
  if (!has_position(angles, position)) {
#pragma unroll
    for (int i = 0; i < 4; ++i) turns.set(i, no_turn());
  } else if (kVectors || angles.vectors) {
    const auto* cos = static_cast<const float*>(angles.cos) + position * angles.cos_pitch;
    const auto* sin = static_cast<const float*>(angles.sin) + position * angles.sin_pitch;
    const float4 c = *reinterpret_cast<const float4*>(cos + first_pair);
    float4 s = *reinterpret_cast<const float4*>(sin + first_pair);
    if (angles.inverse) s = make_float4(-s.x, -s.y, -s.z, -s.w);
    turns = {{c.x, c.y, c.z, c.w}, {s.x, s.y, s.z, s.w}};
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) turns.set(i, load_turn(angles, position, first_pair + i));
  }
  return turns;
}

// Of half the pairs of a unit; what is not rotated has none.
template <bool kVectors>
__device__ __forceinline__ Turns load_unit_turns(const Angles& angles, std::int64_t position,
                                                 bool rotated, int unit, int half) {
  if (!rotated) return {};
  return load_turns<kVectors>(angles, position, unit * kPairs + 4 * half);
}

__device__ __forceinline__ void turn_pair(float& a, float& b, float cos, float sin) {
  const float x = a;
  const float y = b;
  a = __fmaf_rn(x, cos, -__fmul_rn(y, sin));
  b = __fmaf_rn(y, cos, __fmul_rn(x, sin));
}

// Where a unit's vectors lie in its head.
template <RopeStyle kStyle>
struct UnitPlace {
  int first;
  int second;
  bool rotated;

  __device__ UnitPlace(const HeadShape& shape, int unit, bool is_rotated)
      : rotated(is_rotated || unit * kUnitElements < shape.rotary_dim) {
    const bool halves = rotated && kStyle == RopeStyle::rotate_half;
    first = unit * (halves ? kPairs : kUnitElements);
    second = first + (halves ? shape.rotary_dim / 2 : kPairs);
  }
};

// Four pairs of a unit, (a, b).
struct Quad {
  float a[4];
  float b[4];

  __device__ __forceinline__ void turn(const Turns& turns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) turn_pair(a[i], b[i], turns.cos[i], turns.sin[i]);
  }
};

// A unit in the tensor's dtype. Heads are `aligned` where all begin on 16-byte boundaries.
template <Dtype kDtype, RopeStyle kStyle>
struct Unit {
  Eight<kDtype> first;
  Eight<kDtype> second;

  // kOnce: past the first-level cache, which weights are to stay in.
  template <bool kOnce>
  __device__ __forceinline__ void load(const char* head, const UnitPlace<kStyle>& place,
                                       bool aligned) {
    const char* at = head + place.first * kElementBytes<kDtype>;
    const char* behind = head + place.second * kElementBytes<kDtype>;
    if (aligned) {
      first = kOnce ? load_eight_past_l1<kDtype>(at) : load_eight<kDtype>(at);
      second = kOnce ? load_eight_past_l1<kDtype>(behind) : load_eight<kDtype>(behind);
    } else {
      first = load_singly<kDtype>(at, kEight);
      second = load_singly<kDtype>(behind, kEight);
    }
  }
  __device__ __forceinline__ void store(char* head, const UnitPlace<kStyle>& place,
                                        bool aligned) const {
    char* at = head + place.first * kElementBytes<kDtype>;
    char* behind = head + place.second * kElementBytes<kDtype>;
    if (aligned) {
      store_eight(at, first);
      store_eight(behind, second);
    } else {
      store_singly(at, first, kEight);
      store_singly(behind, second, kEight);
    }
  }

  // Half `half` of the pairs.
  __device__ __forceinline__ Quad quad(int half) const {
    Quad result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kStyle == RopeStyle::rotate_half) {
        result.a[i] = first[4 * half + i];
        result.b[i] = second[4 * half + i];
      } else {
        const Eight<kDtype>& vector = half == 0 ? first : second;
        result.a[i] = vector[2 * i];
        result.b[i] = vector[2 * i + 1];
      }
    }
    return result;
  }
  __device__ __forceinline__ void set_quad(int half, const Quad& quad) {
    if constexpr (kStyle == RopeStyle::rotate_half) {
      first.assign_four(half, quad.a);
      second.assign_four(half, quad.b);
    } else {
      Eight<kDtype>& vector = half == 0 ? first : second;
      const float low[4] = {quad.a[0], quad.b[0], quad.a[1], quad.b[1]};
      const float high[4] = {quad.a[2], quad.b[2], quad.a[3], quad.b[3]};
      vector.assign_four(0, low);
      vector.assign_four(1, high);
    }
  }
};

}  // namespace octet::sm90
