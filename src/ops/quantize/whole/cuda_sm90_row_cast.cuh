// A row copy with a scale per row, from a row in the registers of a block of threads: its largest
// magnitude, its scale, its codes and the padding behind them. A thread has kVectors vectors of eight
// neighbouring elements, zeros beyond the row; neighbouring threads have neighbouring vectors.
#pragma once

#include "ops/quantize/cuda_sm90_copies.cuh"

namespace octet::sm90 {

template <Dtype kOf, int kOfThread>
struct RowInRegisters {
  static constexpr Dtype kDtype = kOf;
  static constexpr int kVectors = kOfThread;
  Eight<kDtype> vectors[kVectors];

  // The first column of a thread's vector.
  static __device__ __forceinline__ std::int64_t col_of(int v, int threads) {
    return (std::int64_t{v} * threads + threadIdx.x) * kEight;
  }

  // The largest magnitude of this thread.
  __device__ __forceinline__ std::uint32_t largest(bool finite_only) const {
    using Of = Magnitudes<kDtype>;
    std::uint32_t words = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int w = 0; w < Eight<kDtype>::kWords; ++w) {
        words = Of::larger(words, Of::of(vectors[v].words[w], finite_only));
      }
    }
    return max(words >> 16, words & 0xFFFF);
  }
};

// What a block of at most kWarps warps needs to reduce two numbers.
template <int kWarps>
using RowMaxima = std::uint32_t[2][kWarps];

// The largest number of a block of `warps` warps; `shared` may be used again after the next barrier.
template <int kWarps>
__device__ __forceinline__ std::uint32_t block_maximum(std::uint32_t (&shared)[kWarps],
                                                       std::uint32_t value, int warps) {
  const std::uint32_t of_warp = __reduce_max_sync(~0u, value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = of_warp;
  if (threadIdx.x >= static_cast<unsigned>(warps) && threadIdx.x < kWarps) shared[threadIdx.x] = 0;
  __syncthreads();
  std::uint32_t largest = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) largest = max(largest, shared[w]);
  return largest;
}

struct RowScale {
  float forward;  // q = cast(x * forward)
  bool finite;    // the row has no NaN and no infinity
};

// Finds the scale of a row and writes it; the last row's block also writes the padding of the scales.
template <int kWarps, class Row>
__device__ __forceinline__ RowScale write_row_scale(std::uint32_t (&shared)[2][kWarps],
                                                    const QuantizeParams& params, std::int64_t row,
                                                    int threads, const Row& x) {
  using Of = Magnitudes<Row::kDtype>;
  std::uint32_t largest = block_maximum(shared[0], x.largest(false), threads / 32);
  const bool finite = largest < Of::kInfinity;
  if (!finite) largest = block_maximum(shared[1], x.largest(true), threads / 32);
  const BlockScale scale =
      block_scale(Of::decode(largest), params.limit, params.amax_floor, params.pow2_scales);
  const QuantizedCopy& out = params.out;
  if (threadIdx.x == 0) out.scales[row * out.scale_strides[0]] = scale.inverse;
  const bool pads = out.owns_padding && row == params.rows - 1;
  if (pads) {
    for (std::int64_t pad = params.rows + threadIdx.x; pad < out.scale_pitch; pad += threads) {
      out.scales[pad * out.scale_strides[0]] = 1.0f;
    }
  }
  return {scale.forward, finite};
}

// Zeros behind a row from `col` on, which is beyond the vectors of all threads.
__device__ __forceinline__ void write_row_padding(const QuantizeParams& params, std::int64_t row,
                                                  std::int64_t col, int threads) {
  const QuantizedCopy& out = params.out;
  if (!out.owns_padding) return;
  constexpr std::uint32_t kZeros[2] = {};
#pragma unroll 1
  for (; col < out.pitch; col += std::int64_t{threads} * kEight) {
    store_edge(out, row, col, params.cols, kZeros);
  }
}

// Writes the codes of a row, and where the copy owns its padding the zeros behind.
template <bool kE5m2, class Row>
__device__ __forceinline__ void write_row_codes(const QuantizeParams& params, std::int64_t row,
                                                int threads, RowScale scale, const Row& x) {
  const QuantizedCopy& out = params.out;
#pragma unroll
  for (int v = 0; v < Row::kVectors; ++v) {
    const std::int64_t col = Row::col_of(v, threads);
    float values[kEight];
#pragma unroll
    for (int j = 0; j < kEight; ++j) values[j] = x.vectors[v][j];
    const uint2 codes = scale.finite ? cast_eight<kE5m2, true>(values, scale.forward)
                                     : cast_eight<kE5m2, false>(values, scale.forward);
    if (col + kEight <= params.cols) {
      *reinterpret_cast<uint2*>(out.values + row * out.pitch + col) = codes;
    } else {
      const std::uint32_t words[2] = {codes.x, codes.y};
      store_edge(out, row, col, params.cols, words);
    }
  }
  write_row_padding(params, row, Row::col_of(Row::kVectors, threads), threads);
}

}  // namespace octet::sm90
