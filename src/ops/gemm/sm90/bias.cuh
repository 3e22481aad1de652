// Adds a bias to the finished accumulators of a tile, before they are rounded and stored. Each warp decodes
// the values of its columns to f32 in its own staging memory, from where every lane reads those it holds.
// One f32 addition per accumulator; tiles without a bias pay a uniform branch.
#pragma once

#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/sm90/consumer.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace octet::sm90 {

// Writes bias[first, first + kCols) as f32; nothing beyond N is read, and columns there are not stored.
template <int kCols, class T>
__device__ __forceinline__ void stage_bias(const void* bias, int first, int n,
                                           std::uint32_t staging) {
  const T* from = static_cast<const T*>(bias) + first;
  const int lane = lane_index();
  float values[kCols / 32];  // all loads in flight before the first store
#pragma unroll
  for (int i = 0; i < kCols / 32; ++i) {
    const int col = 32 * i + lane;
    values[i] = first + col < n ? static_cast<float>(from[col]) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kCols / 32; ++i) {
    ptx::store_shared(staging + (32 * i + lane) * 4, __float_as_uint(values[i]));
  }
}

// `staging` is the warp's own memory, `first` the first column of d in the warp's part of the tile.
template <class C>
__device__ __forceinline__ void add_bias(Consumer<C>& consumer, const GemmParams& params, int first,
                                         std::uint32_t staging) {
  using Consumer = Consumer<C>;
  constexpr int kCols = consumer_cols(C::value);
  constexpr int kAtOnce = Consumer::kColumnsAtOnce;
  static_assert(kCols * 4 <= kStagingBytes, "the bias of a warp's columns fits its staging memory");
  ptx::wait_stores_read();
  __syncwarp();
  if (params.bias_dtype == Dtype::f32) {
    stage_bias<kCols, float>(params.bias, first, params.n, staging);
  } else if (params.bias_dtype == Dtype::bf16) {
    stage_bias<kCols, __nv_bfloat16>(params.bias, first, params.n, staging);
  } else {
    stage_bias<kCols, __half>(params.bias, first, params.n, staging);
  }
  __syncwarp();

  const int lane = lane_index();
#pragma unroll
  for (int n = 0; n < Consumer::kWavesN; ++n) {
#pragma unroll
    for (int i = 0; i < Consumer::kValues / 2; i += kAtOnce) {
      const int col = n * wave_n(C::value) + column_of_thread(lane, i, kAtOnce);
      float bias[kAtOnce];
      if constexpr (kAtOnce == 4) {
        ptx::load_shared(staging + col * 4, bias[0], bias[1], bias[2], bias[3]);
      } else {
        ptx::load_shared(staging + col * 4, bias[0], bias[1]);
      }
#pragma unroll
      for (int m = 0; m < Consumer::kWavesM; ++m) {
        float* acc = consumer.acc[m * Consumer::kWavesN + n];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int upper = accumulator_of_column(i + j);
          acc[upper] = __fadd_rn(acc[upper], bias[j]);
          acc[upper + 2] = __fadd_rn(acc[upper + 2], bias[j]);
        }
      }
    }
  }
}

}  // namespace octet::sm90
