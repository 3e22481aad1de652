// Eight neighbouring elements of a row: 16 bytes of bf16 or f16, 32 of f32, as floats in between.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet::sm90 {

inline constexpr int kEight = 8;

template <Dtype kDtype>
inline constexpr int kElementBytes = size_bytes(kDtype);

__device__ __forceinline__ float decode_f16(std::uint32_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

// Two floats rounded to 16 bits each, the first in the low half.
template <Dtype kDtype>
__device__ __forceinline__ std::uint32_t encode_pair(float low, float high) {
  std::uint32_t pair;
  if constexpr (kDtype == Dtype::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

template <Dtype kDtype>
struct Eight {
  static constexpr int kPerWord = 4 / kElementBytes<kDtype>;
  static constexpr int kWords = kEight / kPerWord;
  std::uint32_t words[kWords];

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kDtype == Dtype::f32) {
      return __uint_as_float(words[i]);
    } else if constexpr (kDtype == Dtype::bf16) {
      return __uint_as_float(i % 2 ? words[i / 2] & 0xFFFF0000u : words[i / 2] << 16);
    } else {
      return decode_f16(i % 2 ? words[i / 2] >> 16 : words[i / 2]);
    }
  }

  // The same by another instruction, which the compiler does not know to be the same: where elements
  // are wanted twice, and all of them as floats in between would be too many registers.
  __device__ __forceinline__ float again(int i) const {
    if constexpr (kDtype == Dtype::bf16) {
      return __uint_as_float(__byte_perm(words[i / 2], 0, i % 2 ? 0x3244 : 0x1044));
    }
    return (*this)[i];
  }

  // Rounds each to the dtype.
  __device__ __forceinline__ void assign(const float (&values)[kEight]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (kDtype == Dtype::f32) {
        words[w] = __float_as_uint(values[w]);
      } else {
        words[w] = encode_pair<kDtype>(values[2 * w], values[2 * w + 1]);
      }
    }
  }
  // The first or the second four of them.
  __device__ __forceinline__ void assign_four(int half, const float (&values)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += kPerWord) {
      const int word = (4 * half + i) / kPerWord;
      if constexpr (kDtype == Dtype::f32) {
        words[word] = __float_as_uint(values[i]);
      } else {
        words[word] = encode_pair<kDtype>(values[i], values[i + 1]);
      }
    }
  }
};

// The first `count` elements of memory that is not aligned or not all there, zeros behind them.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_some(const void* from, int count) {
  Eight<kDtype> result{};
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    if (i >= count) continue;
    if constexpr (kDtype == Dtype::f32) {
      result.words[i] = static_cast<const std::uint32_t*>(from)[i];
    } else {
      const std::uint32_t bits = static_cast<const std::uint16_t*>(from)[i];
      result.words[i / 2] |= bits << (16 * (i % 2));
    }
  }
  return result;
}

template <Dtype kDtype>
__device__ __forceinline__ void store_some(void* to, const Eight<kDtype>& eight, int count) {
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    if (i >= count) continue;
    if constexpr (kDtype == Dtype::f32) {
      static_cast<std::uint32_t*>(to)[i] = eight.words[i];
    } else {
      static_cast<std::uint16_t*>(to)[i] =
          static_cast<std::uint16_t>(eight.words[i / 2] >> (16 * (i % 2)));
    }
  }
}

// Vectors of 16 bytes, as load(offset in bytes) gives them.
template <Dtype kDtype, class Load>
__device__ __forceinline__ Eight<kDtype> load_vectors(const Load& load) {
  Eight<kDtype> result;
#pragma unroll
  for (int v = 0; v < Eight<kDtype>::kWords / 4; ++v) {
    const uint4 vector = load(16 * v);
    result.words[4 * v] = vector.x;
    result.words[4 * v + 1] = vector.y;
    result.words[4 * v + 2] = vector.z;
    result.words[4 * v + 3] = vector.w;
  }
  return result;
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_eight(const void* from) {
  return load_vectors<kDtype>([from](int offset) {
    return *reinterpret_cast<const uint4*>(static_cast<const char*>(from) + offset);
  });
}

// The same of memory that is read once: the first-level cache keeps what is in it, as weights are.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_eight_once(const void* from) {
  return load_vectors<kDtype>([from](int offset) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(static_cast<const char*>(from) + offset));
    return v;
  });
}

// The same of memory that is to stay in the L2 cache until it is read again.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_eight_kept(const void* from) {
  std::uint64_t keep;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
  return load_vectors<kDtype>([from, keep](int offset) {
    uint4 v;
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(static_cast<const char*>(from) + offset), "l"(keep));
    return v;
  });
}

template <Dtype kDtype>
__device__ __forceinline__ void store_eight(void* to, const Eight<kDtype>& eight) {
#pragma unroll
  for (int v = 0; v < Eight<kDtype>::kWords / 4; ++v) {
    static_cast<uint4*>(to)[v] = make_uint4(eight.words[4 * v], eight.words[4 * v + 1],
                                            eight.words[4 * v + 2], eight.words[4 * v + 3]);
  }
}

// A matrix with contiguous columns, as kernels take it.
struct Matrix {
  void* data;
  std::int64_t pitch;  // elements
};

// Whether rows are all of whole, aligned eights, which kernels know when they are compiled.
enum class Rows { whole, ragged };

template <Dtype kDtype>
__device__ __forceinline__ char* element_at(const Matrix& matrix, std::int64_t row, int col) {
  return static_cast<char*>(matrix.data) + (row * matrix.pitch + col) * kElementBytes<kDtype>;
}

// Elements col ... col + 7 of a row of `cols`; zeros where there are none.
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ Eight<kDtype> load_row(const Matrix& matrix, std::int64_t row, int col,
                                                  int cols) {
  const char* from = element_at<kDtype>(matrix, row, col);
  if constexpr (kRows == Rows::whole) return load_eight<kDtype>(from);
  return load_some<kDtype>(from, cols - col);
}

template <Rows kRows, Dtype kDtype>
__device__ __forceinline__ void store_row(const Matrix& matrix, std::int64_t row, int col, int cols,
                                          const Eight<kDtype>& eight) {
  char* to = element_at<kDtype>(matrix, row, col);
  if constexpr (kRows == Rows::whole) {
    store_eight(to, eight);
  } else {
    store_some(to, eight, cols - col);
  }
}

// A vector of a dtype that is known at run time alone, as weights are: they stay in the caches.
struct Weights {
  const void* data;
  Dtype dtype;
  bool aligned = true;  // to 16 bytes; kernels of ragged rows do not ask
};

template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ void decode_weights(const Weights& weights, int col, int cols,
                                               float (&values)[kEight]) {
  const char* from =
      static_cast<const char*>(weights.data) + std::int64_t{col} * kElementBytes<kDtype>;
  const Eight<kDtype> eight =
      kRows == Rows::whole ? load_eight<kDtype>(from) : load_some<kDtype>(from, cols - col);
#pragma unroll
  for (int i = 0; i < kEight; ++i) values[i] = eight[i];
}

// Four elements from `col` on, aligned to their size.
template <Dtype kDtype>
__device__ __forceinline__ void load_four(const void* data, int col, float (&values)[4]) {
  const char* from = static_cast<const char*>(data) + std::int64_t{col} * kElementBytes<kDtype>;
  if constexpr (kDtype == Dtype::f32) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
  } else {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    const Eight<kDtype> eight{{four.x, four.y, 0, 0}};
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = eight[i];
  }
}

// Where they are not aligned.
__device__ __forceinline__ void load_four_singly(const Weights& weights, int col,
                                                 float (&values)[4]) {
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    const int at = col + i;
    float value;
    switch (weights.dtype) {
      case Dtype::bf16:
        value = f32_from_bf16(static_cast<const std::uint16_t*>(weights.data)[at]);
        break;
      case Dtype::f16:
        value = decode_f16(static_cast<const std::uint16_t*>(weights.data)[at]);
        break;
      default: value = static_cast<const float*>(weights.data)[at]; break;
    }
    values[0] = i == 0 ? value : values[0];
    values[1] = i == 1 ? value : values[1];
    values[2] = i == 2 ? value : values[2];
    values[3] = i == 3 ? value : values[3];
  }
}

__device__ __forceinline__ void load_four_weights(const Weights& weights, int col,
                                                  float (&values)[4]) {
  switch (weights.dtype) {
    case Dtype::bf16: load_four<Dtype::bf16>(weights.data, col, values); break;
    case Dtype::f16: load_four<Dtype::f16>(weights.data, col, values); break;
    default: load_four<Dtype::f32>(weights.data, col, values); break;
  }
}

template <Rows kRows>
__device__ __forceinline__ void load_weights(const Weights& weights, int col, int cols,
                                             float (&values)[kEight]) {
  switch (weights.dtype) {
    case Dtype::bf16: decode_weights<Dtype::bf16, kRows>(weights, col, cols, values); break;
    case Dtype::f16: decode_weights<Dtype::f16, kRows>(weights, col, cols, values); break;
    default: decode_weights<Dtype::f32, kRows>(weights, col, cols, values); break;
  }
}

}  // namespace octet::sm90
