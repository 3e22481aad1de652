// Eight neighbouring elements of a row: 16 bytes of bf16 or f16, 32 bytes of f32. Kernels load and
// store them as vectors and compute in f32.
#pragma once

#include "core/numeric.hpp"
#include "device/ptx/arithmetic.cuh"
#include "device/ptx/global_memory.cuh"

#include <cstdint>

namespace octet::sm90 {

inline constexpr int kEight = 8;

template <Dtype kDtype>
inline constexpr int kElementBytes = size_bytes(kDtype);

// Two floats rounded to 16 bits each, the first in the low half.
template <Dtype kDtype>
__device__ __forceinline__ std::uint32_t encode_pair(float low, float high) {
  if constexpr (kDtype == Dtype::bf16) return ptx::bf16x2_from_f32(low, high);
  return ptx::f16x2_from_f32(low, high);
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
      return ptx::f32_from_f16_bits(i % 2 ? words[i / 2] >> 16 : words[i / 2]);
    }
  }

  // The same value through another instruction, for the second use of an element. The compiler
  // cannot merge the two decodes, so it does not keep all elements as floats in between, which
  // takes too many registers.
  __device__ __forceinline__ float decode_again(int i) const {
    if constexpr (kDtype == Dtype::bf16) {
      return __uint_as_float(__byte_perm(words[i / 2], 0, i % 2 ? 0x3244 : 0x1044));
    }
    return (*this)[i];
  }

  // Rounds the values to the dtype.
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
  // Only the first four (half 0) or the last four (half 1).
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

// Element by element: for memory that is not aligned, or where fewer than eight are left. Loads the
// first `count` elements and zeros the rest.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_singly(const void* from, int count) {
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
__device__ __forceinline__ void store_singly(void* to, const Eight<kDtype>& eight, int count) {
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

// Eight elements from vectors of 16 bytes; `load` takes the offset in bytes.
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

// For memory that is read once: bypasses the L1 cache, where the weights are to stay.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_eight_past_l1(const void* from) {
  return load_vectors<kDtype>([from](int offset) {
    return ptx::load_global_past_l1(static_cast<const char*>(from) + offset);
  });
}

// For memory that is to stay in the L2 cache until it is read again.
template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_eight_evict_last(const void* from) {
  const std::uint64_t policy = ptx::evict_last_policy();
  return load_vectors<kDtype>([from, policy](int offset) {
    return ptx::load_global(static_cast<const char*>(from) + offset, policy);
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

// A matrix with contiguous rows, as kernels take it.
struct Matrix {
  void* data;
  std::int64_t pitch;  // elements
};

// whole: every row starts on a 16-byte boundary and its length is a multiple of eight, so that
// kernels move vectors only. Known at compile time.
enum class Rows { whole, ragged };

template <Dtype kDtype>
__device__ __forceinline__ char* element_at(const Matrix& matrix, std::int64_t row, int col) {
  return static_cast<char*>(matrix.data) + (row * matrix.pitch + col) * kElementBytes<kDtype>;
}

// Elements col ... col + 7 of a row of `cols`; zeros beyond its end.
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ Eight<kDtype> load_row(const Matrix& matrix, std::int64_t row, int col,
                                                  int cols) {
  const char* from = element_at<kDtype>(matrix, row, col);
  if constexpr (kRows == Rows::whole) return load_eight<kDtype>(from);
  return load_singly<kDtype>(from, cols - col);
}

template <Rows kRows, Dtype kDtype>
__device__ __forceinline__ void store_row(const Matrix& matrix, std::int64_t row, int col, int cols,
                                          const Eight<kDtype>& eight) {
  char* to = element_at<kDtype>(matrix, row, col);
  if constexpr (kRows == Rows::whole) {
    store_eight(to, eight);
  } else {
    store_singly(to, eight, cols - col);
  }
}

// A weight vector, whose dtype is known only at run time. It stays in the caches.
struct Weights {
  const void* data;
  Dtype dtype;
  bool aligned = true;  // to 16 bytes; kernels of ragged rows ignore it
};

template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ void decode_weights(const Weights& weights, int col, int cols,
                                               float (&values)[kEight]) {
  const char* from =
      static_cast<const char*>(weights.data) + std::int64_t{col} * kElementBytes<kDtype>;
  const Eight<kDtype> eight =
      kRows == Rows::whole ? load_eight<kDtype>(from) : load_singly<kDtype>(from, cols - col);
#pragma unroll
  for (int i = 0; i < kEight; ++i) values[i] = eight[i];
}

// Four elements from `col` on, whose address is a multiple of their size.
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

// Element by element, for weights of any alignment.
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
        value = ptx::f32_from_f16_bits(static_cast<const std::uint16_t*>(weights.data)[at]);
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
