// How the Hopper kernels of moe_permute and moe_unpermute read and write eight neighbouring
// elements of a row: as vectors, where rows start on 16-byte boundaries and are whole eights, or
// one by one, for any dtype, length and alignment.
#pragma once

#include "device/rows/eight.cuh"
#include "device/rows/element.cuh"

namespace octet::sm90 {

// A matrix whose dtype some kernels know only at run time.
struct RowMatrix {
  void* data;
  std::int64_t pitch;  // elements
  int cols;
  Dtype dtype;
};

template <Dtype kDtype>
struct VectorAccess {
  using Values = Eight<kDtype>;
  static constexpr int kEights = kDtype == Dtype::f32 ? 1 : 2;  // per thread: 32 bytes

  static __device__ __forceinline__ char* at(const RowMatrix& matrix, std::int64_t row, int col) {
    return static_cast<char*>(matrix.data) + (row * matrix.pitch + col) * kElementBytes<kDtype>;
  }
  static __device__ __forceinline__ Values load(const RowMatrix& matrix, std::int64_t row,
                                                int col) {
    return load_eight_past_l1<kDtype>(at(matrix, row, col));
  }
  static __device__ __forceinline__ void store(const RowMatrix& matrix, std::int64_t row, int col,
                                               const float (&values)[kEight]) {
    Values eight;
    eight.assign(values);
    store_eight(at(matrix, row, col), eight);
  }
};

struct ElementAccess {
  struct Values {
    float values[kEight];
    __device__ __forceinline__ float operator[](int i) const { return values[i]; }
  };
  static constexpr int kEights = 1;

  // Zeros beyond the end of the row.
  static __device__ __forceinline__ Values load(const RowMatrix& matrix, std::int64_t row,
                                                int col) {
    Values result{};
    const std::int64_t first = row * matrix.pitch + col;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      if (col + i >= matrix.cols) continue;
      result.values[i] = load_element(matrix.data, first + i, matrix.dtype);
    }
    return result;
  }
  static __device__ __forceinline__ void store(const RowMatrix& matrix, std::int64_t row, int col,
                                               const float (&values)[kEight]) {
    const std::int64_t first = row * matrix.pitch + col;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      if (col + i >= matrix.cols) continue;
      store_element(matrix.data, first + i, matrix.dtype, values[i]);
    }
  }
};

}  // namespace octet::sm90
