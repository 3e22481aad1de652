// The results of a tile: divided by the sums, rounded and left in shared memory for the storing lane, or
// stored as f32; and the logarithms of the sums.
#pragma once

#include "ops/attention/sm90/forward/consumer.cuh"

namespace octet::attention {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

// Rows of one thread: the factor of their accumulators, and log(sum of exponentials).
struct RowResults {
  float factor[2];
  float lse[2];
};

// Adds the sink of the head, which is one more logit.
template <class C>
__device__ __forceinline__ RowResults finish_rows(const Consumer<C>& consumer,
                                                  const ForwardParams& params, const Work& work) {
  const bool has_sink = params.sink != nullptr && work.sequence >= 0;
  const float sink = has_sink ? params.sink[work.head * params.sink_stride] : kMinusInfinity;
  RowResults results;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = sum_of_row(consumer.rows.sum[r]);
    const bool no_keys = sum == 0;  // the largest of any others adds about 1
    const float lse = fmaf(consumer.rows.largest[r], params.scale, ptx::log2_approx(sum) * kLn2);
    results.lse[r] = no_keys ? sink : lse;
    results.factor[r] = no_keys ? 0 : 1 / sum;
    if (has_sink && !no_keys) {
      const float larger = fmaxf(lse, sink);
      const float both =
          ptx::exp2_approx((lse - larger) * kLog2E) + ptx::exp2_approx((sink - larger) * kLog2E);
      results.lse[r] = larger + ptx::log2_approx(both) * kLn2;
      results.factor[r] *= ptx::exp2_approx((lse - results.lse[r]) * kLog2E);
    }
  }
  return results;
}

template <class C>
__device__ __forceinline__ void store_lse(const ForwardParams& params, const Work& work,
                                          std::int32_t first_row, const RowResults& results) {
  if (params.lse == nullptr || threadIdx.x % 4 != 0) return;
  float* lse = params.lse + work.head * params.lse_head + work.q_begin;
  if (params.tiles == nullptr) lse += work.sequence * params.lse_batch;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::int32_t row = first_row + 8 * r;
    if (row < work.queries) lse[row] = results.lse[r];
  }
}

template <class C>
__device__ __forceinline__ void store_f32(const Consumer<C>& consumer, const ForwardParams& params,
                                          const Work& work, std::int32_t first_row,
                                          const RowResults& results) {
  constexpr Sm90AttentionForwardConfig c = C::value;
  float* out = params.out + work.head * params.out_head + work.q_begin * params.out_row;
  if (params.tiles == nullptr) out += work.sequence * params.out_batch;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::int32_t row = first_row + 8 * r;
    if (row >= work.queries) continue;
    float* to = out + row * params.out_row;
#pragma unroll
    for (int i = 0; i < c.dim_v / 2; i += 4) {
      const std::int32_t col = i * 2 + static_cast<std::int32_t>(threadIdx.x % 4 * 2);
      if (col >= params.dim_v) continue;
      *reinterpret_cast<float2*>(to + col) = make_float2(
          consumer.o[i + 2 * r] * results.factor[r], consumer.o[i + 2 * r + 1] * results.factor[r]);
    }
  }
}

// Into the rows of shared memory that held this warp's queries.
template <class C>
__device__ __forceinline__ void leave_results(const Consumer<C>& consumer, int slot,
                                              const RowResults& results) {
  constexpr Sm90AttentionForwardConfig c = C::value;
  const int lane = ptx::lane_index();
  const int row = static_cast<int>(threadIdx.x % 128 / 32) * 16 + lane % 16;
  const std::uint32_t to =
      ForwardStorage<C>::q_at(consumer.base, slot) + (consumer.index * kConsumerRows) * kRowBytes;
#pragma unroll
  for (int i = 0; i < c.dim_v / 2; i += 8) {
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float factor = results.factor[w % 2];
      const float low = consumer.o[i + 2 * w] * factor, high = consumer.o[i + 2 * w + 1] * factor;
      words[w] =
          c.dtype == Dtype::bf16 ? ptx::bf16x2_from_f32(low, high) : ptx::f16x2_from_f32(low, high);
    }
    // 16 columns: two chunks of eight, lanes 16 to 31 have the second.
    const int chunk = i / 4 + lane / 16;
    ptx::store_matrices(to + chunk / 8 * (c.tile_q * kRowBytes) + swizzle128(row, chunk % 8),
                        words);
  }
}

}  // namespace octet::attention
