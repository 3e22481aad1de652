// A row in the registers of its threads, as the Hopper kernels of rms_norm hold it.
//
// A thread holds kVectors vectors of eight neighbouring elements; neighbouring threads hold
// neighbouring vectors. The sum over the row is the balanced tree of rms_norm.hpp: lanes by
// shuffles, warps through shared memory.
#pragma once

#include "device/rows/tree_sum.cuh"

namespace octet::sm90 {

inline constexpr int kRmsNormMaxThreads = 512;

// The threads of a block that share a row, whole warps, and the place of this thread.
struct RowThreads {
  int count;
  int index;  // of this thread among those of its row
  int row;    // of this thread, among the rows of the block

  // A power of two, in a block of several rows.
  __device__ static RowThreads of_log2(int log2) {
    const auto thread = static_cast<int>(threadIdx.x);
    return {1 << log2, thread & ((1 << log2) - 1), thread >> log2};
  }
  // The first `count` threads of a block of one row.
  __device__ static RowThreads of_block(int count) {
    return {count, static_cast<int>(threadIdx.x), 0};
  }
  __device__ int col(int vector) const { return (vector * count + index) * kEight; }
  __device__ int warps() const { return count / 32; }
};

// Addresses of a thread's vectors in a row of `cols` elements.
template <Dtype kDtype, Rows kRows>
struct RowVectors {
  char* first;
  int step;  // elements from one vector to the next
  int left;  // elements of the row from the first vector on

  __device__ RowVectors(const Matrix& matrix, std::int64_t row, int cols, const RowThreads& threads)
      : first(element_at<kDtype>(matrix, row, threads.col(0))),
        step(kEight * threads.count),
        left(cols - threads.col(0)) {}

  __device__ __forceinline__ bool has(int vector) const { return left > vector * step; }
  __device__ __forceinline__ char* at(int vector) const {
    return first + vector * (step * kElementBytes<kDtype>);
  }
  __device__ __forceinline__ Eight<kDtype> load(int vector) const {
    if constexpr (kRows == Rows::ragged) {
      return load_singly<kDtype>(at(vector), left - vector * step);
    }
    if (!has(vector)) return {};
    return load_eight<kDtype>(at(vector));
  }
  __device__ __forceinline__ void store(int vector, const Eight<kDtype>& eight) const {
    if constexpr (kRows == Rows::ragged) {
      store_singly(at(vector), eight, left - vector * step);
    } else if (has(vector)) {
      store_eight(at(vector), eight);
    }
  }
};

// The sum over a row takes three steps: each warp stores the sums over its lanes with this
// function, the block synchronizes, and every thread of the row adds them with sum_of_warps().
// `vector_sums` has kVectors sums per row, each over the eight elements of a vector; the sums of
// the next row are stored `row_sums` further.
template <int kVectors, int kCount>
__device__ __forceinline__ void store_warp_sums(float (&vector_sums)[kCount],
                                                const RowThreads& threads, float* sums,
                                                int row_sums = 0) {
  const float sum = sums_of_lanes(vector_sums);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane >= kCount) return;
  const int value = value_of_lane(lane, kCount);
  sums[value / kVectors * row_sums + value % kVectors * threads.warps() + threads.index / 32] = sum;
}

template <Rows kRows>
__device__ __forceinline__ void load_gains(const Weights& g, bool one_plus_weight, int col,
                                           int cols, float (&w)[kEight]) {
  load_weights<kRows>(g, col, cols, w);
  if (!one_plus_weight) return;
#pragma unroll
  for (int i = 0; i < kEight; ++i) w[i] = __fadd_rn(1.0f, w[i]);
}

// Squares of 16-bit elements are exact in f32, so a fused multiply-add rounds like a product and a
// sum, except for squares below 2^-126.
template <Dtype kDtype>
__device__ __forceinline__ float sum_of_squares(const Eight<kDtype>& h) {
  float pairs[kEight / 2];
#pragma unroll
  for (int i = 0; i < kEight / 2; ++i) {
    const float low = __fmul_rn(h[2 * i], h[2 * i]);
    const float high = h[2 * i + 1];
    pairs[i] =
        kDtype == Dtype::f32 ? __fadd_rn(low, __fmul_rn(high, high)) : __fmaf_rn(high, high, low);
  }
  return __fadd_rn(__fadd_rn(pairs[0], pairs[1]), __fadd_rn(pairs[2], pairs[3]));
}

__device__ __forceinline__ float rstd_of(float sum_of_squares, int cols, float eps) {
  const float mean = __fdiv_rn(sum_of_squares, static_cast<float>(cols));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> normed(const Eight<kDtype>& h, float rstd,
                                                const float (&w)[kEight]) {
  float y[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) y[i] = __fmul_rn(__fmul_rn(h[i], rstd), w[i]);
  Eight<kDtype> result;
  result.assign(y);
  return result;
}

}  // namespace octet::sm90
