// Heads in units of eight pairs, as the Hopper kernels of rope and rms_norm_rope take them. A unit
// is 16 elements of a head in two vectors of eight, so that both elements of every pair are in one
// thread.
//
//   unit j of a head   rotate_half: elements 8j ... 8j + 7, and those rotary_dim / 2 further
//                      interleaved, and elements that are not rotated: 16j ... 16j + 15
//
// The number of units of a head is padded to a power of two, so that a head has neighbouring lanes
// of a warp and a thread has the same unit of all its heads: it reads cos and sin once per token.
#pragma once

#include "device/rows/eight.cuh"

#include <octet/ops/rope.hpp>

namespace octet::sm90 {

inline constexpr int kPairs = 8;  // pairs of a unit
inline constexpr int kUnitElements = 16;

// The heads of one tensor [batch, seq, heads, head_dim].
struct Heads {
  void* data;
  std::int64_t strides[3];  // elements: batch, seq, head
};

// The caches of cos and sin, and the positions of the tokens.
struct Angles {
  const void* cos;  // [rows, half or all of rotary_dim]
  const void* sin;
  Dtype dtype;
  std::int64_t cos_pitch;  // elements
  std::int64_t sin_pitch;
  std::int64_t rows;
  int pair_step;  // columns from one pair to the next: 2 in a full cache of interleaved pairs
  bool vectors;   // f32, pairs side by side, rows start on 16-byte boundaries
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
  int units_log2;  // of a head, with the padding
};

// The tensor (q or k) of this block, and the index of the block among those of the tensor.
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
struct CosSin {
  float cos;
  float sin;
};
__device__ __forceinline__ CosSin load_cos_sin(const Angles& angles, std::int64_t position,
                                               int pair) {
  const std::int64_t col = std::int64_t{pair} * angles.pair_step;
  const float sin = element_value(angles.sin, position * angles.sin_pitch + col, angles.dtype);
  return {element_value(angles.cos, position * angles.cos_pitch + col, angles.dtype),
          angles.inverse ? -sin : sin};
}

// Whether the caches have this position. Elements rotated by a position outside them become NaN.
__device__ __forceinline__ bool has_position(const Angles& angles, std::int64_t position) {
  return position >= 0 && position < angles.rows;
}
__device__ __forceinline__ CosSin nan_cos_sin() { return {__int_as_float(0x7FFFFFFF), 0.0f}; }

// cos and sin of four neighbouring pairs.
struct CosSinOf4 {
  float cos[4];
  float sin[4];

  __device__ __forceinline__ void set(int i, const CosSin& pair) {
    cos[i] = pair.cos;
    sin[i] = pair.sin;
  }
};

// kVectors: angles.vectors is true.
template <bool kVectors>
__device__ __forceinline__ CosSinOf4 load_cos_sin_of_4(const Angles& angles, std::int64_t position,
                                                       int first_pair) {
  CosSinOf4 result;
  if (!has_position(angles, position)) {
#pragma unroll
    for (int i = 0; i < 4; ++i) result.set(i, nan_cos_sin());
  } else if (kVectors || angles.vectors) {
    const auto* cos = static_cast<const float*>(angles.cos) + position * angles.cos_pitch;
    const auto* sin = static_cast<const float*>(angles.sin) + position * angles.sin_pitch;
    const float4 c = *reinterpret_cast<const float4*>(cos + first_pair);
    float4 s = *reinterpret_cast<const float4*>(sin + first_pair);
    if (angles.inverse) s = make_float4(-s.x, -s.y, -s.z, -s.w);
    result = {{c.x, c.y, c.z, c.w}, {s.x, s.y, s.z, s.w}};
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) result.set(i, load_cos_sin(angles, position, first_pair + i));
  }
  return result;
}

// cos and sin of half the pairs of a unit; none where the unit is not rotated.
template <bool kVectors>
__device__ __forceinline__ CosSinOf4 load_unit_cos_sin(const Angles& angles, std::int64_t position,
                                                       bool rotated, int unit, int half) {
  if (!rotated) return {};
  return load_cos_sin_of_4<kVectors>(angles, position, unit * kPairs + 4 * half);
}

__device__ __forceinline__ void rotate_pair(float& a, float& b, float cos, float sin) {
  const float x = a;
  const float y = b;
  a = __fmaf_rn(x, cos, -__fmul_rn(y, sin));
  b = __fmaf_rn(y, cos, __fmul_rn(x, sin));
}

// The first elements of a unit's two vectors, as offsets in its head.
template <RopeStyle kStyle>
struct UnitPlace {
  int unit;
  int first;
  int second;
  bool rotated;

  __device__ UnitPlace(const HeadShape& shape, int unit_, bool is_rotated)
      : unit(unit_), rotated(is_rotated || unit_ * kUnitElements < shape.rotary_dim) {
    const bool halves = rotated && kStyle == RopeStyle::rotate_half;
    first = unit * (halves ? kPairs : kUnitElements);
    second = first + (halves ? shape.rotary_dim / 2 : kPairs);
  }
};

// Four pairs (a, b) of a unit.
struct PairsOf4 {
  float a[4];
  float b[4];

  __device__ __forceinline__ void rotate(const CosSinOf4& angles) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rotate_pair(a[i], b[i], angles.cos[i], angles.sin[i]);
  }
};

// A unit in the tensor's dtype. `aligned`: every head starts on a 16-byte boundary.
template <Dtype kDtype, RopeStyle kStyle>
struct Unit {
  Eight<kDtype> first;
  Eight<kDtype> second;

  // kPastL1: bypasses the L1 cache, where the weights are to stay.
  template <bool kPastL1>
  __device__ __forceinline__ void load(const char* head, const UnitPlace<kStyle>& place,
                                       bool aligned) {
    const char* first_at = head + place.first * kElementBytes<kDtype>;
    const char* second_at = head + place.second * kElementBytes<kDtype>;
    if (aligned) {
      first = kPastL1 ? load_eight_past_l1<kDtype>(first_at) : load_eight<kDtype>(first_at);
      second = kPastL1 ? load_eight_past_l1<kDtype>(second_at) : load_eight<kDtype>(second_at);
    } else {
      first = load_singly<kDtype>(first_at, kEight);
      second = load_singly<kDtype>(second_at, kEight);
    }
  }
  __device__ __forceinline__ void store(char* head, const UnitPlace<kStyle>& place,
                                        bool aligned) const {
    char* first_at = head + place.first * kElementBytes<kDtype>;
    char* second_at = head + place.second * kElementBytes<kDtype>;
    if (aligned) {
      store_eight(first_at, first);
      store_eight(second_at, second);
    } else {
      store_singly(first_at, first, kEight);
      store_singly(second_at, second, kEight);
    }
  }

  // The first four pairs (half 0) or the last four (half 1).
  __device__ __forceinline__ PairsOf4 pairs(int half) const {
    PairsOf4 result;
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
  __device__ __forceinline__ void set_pairs(int half, const PairsOf4& pairs) {
    if constexpr (kStyle == RopeStyle::rotate_half) {
      first.assign_four(half, pairs.a);
      second.assign_four(half, pairs.b);
    } else {
      Eight<kDtype>& vector = half == 0 ? first : second;
      const float low[4] = {pairs.a[0], pairs.b[0], pairs.a[1], pairs.b[1]};
      const float high[4] = {pairs.a[2], pairs.b[2], pairs.a[3], pairs.b[3]};
      vector.assign_four(0, low);
      vector.assign_four(1, high);
    }
  }
};

}  // namespace octet::sm90
