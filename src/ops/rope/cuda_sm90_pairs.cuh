// rope and rms_norm_rope on Hopper for heads of any even size and any alignment, one pair per
// thread at a time. A block takes all elements that are normed together and reads them twice.
// Slower than units of eight pairs (cuda_sm90_heads.cuh); this is the fallback.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/rows/tree_sum.cuh"
#include "ops/rope/cuda_sm90_units.cuh"

namespace octet::sm90 {

inline constexpr int kPairThreads = 256;

// One of q and k.
struct PairTensor {
  Heads in;         // x; in backward dout
  Heads x;          // backward only
  Heads out;        // in backward dx
  Weights g;        // null data: no norm
  float* rstd;      // written in forward unless null, read in backward
  float* partials;  // backward only: [blocks, columns of dg]
  int heads;
  int norms;  // groups of a token that are normed together: 1, or one per head
  float one_over_count;
  unsigned blocks;
};

struct PairParams {
  PairTensor tensors[2];
  Angles angles;
  std::int64_t seq;
  std::int64_t tokens;
  int head_dim;
  int rotary_dim;
  RopeStyle style;
  Dtype dtype;
  float eps;
  bool one_plus_weight;
};

// The heads of a token that a block norms together: one, or all of them.
struct PairGroup {
  Token token;
  int first_head;
  int pairs;          // of these heads together
  std::int64_t norm;  // index of the group's rstd

  __device__ PairGroup(const PairParams& params, const PairTensor& tensor, std::int64_t group)
      : token(static_cast<unsigned>(group / tensor.norms), static_cast<unsigned>(params.seq)),
        first_head(tensor.norms == 1 ? 0 : static_cast<int>(group % tensor.norms)),
        pairs((tensor.norms == 1 ? tensor.heads : 1) * (params.head_dim / 2)),
        norm(group) {}
};

// Head and elements of pair `index` of a group.
struct PairPlace {
  int head;
  int first;
  int second;
  int pair;  // index in the caches of cos and sin; negative: not rotated

  __device__ PairPlace(const PairParams& params, const PairGroup& group, int index) {
    const int of_head = index % (params.head_dim / 2);
    head = group.first_head + index / (params.head_dim / 2);
    pair = of_head < params.rotary_dim / 2 ? of_head : -1;
    if (pair >= 0 && params.style == RopeStyle::rotate_half) {
      first = of_head;
      second = of_head + params.rotary_dim / 2;
    } else {
      first = 2 * of_head;
      second = 2 * of_head + 1;
    }
  }
};

__device__ __forceinline__ void store_value(void* data, std::int64_t index, Dtype dtype,
                                            float value) {
  switch (dtype) {
    case Dtype::bf16: static_cast<std::uint16_t*>(data)[index] = bf16_from_f32(value); break;
    case Dtype::f16: static_cast<std::uint16_t*>(data)[index] = f16_from_f32(value); break;
    default: static_cast<float*>(data)[index] = value; break;
  }
}

struct PairValues {
  float a;
  float b;
};

__device__ __forceinline__ PairValues load_pair(const Heads& heads, const Token& token,
                                                const PairPlace& place, Dtype dtype) {
  const std::int64_t at = token.offset(heads) + place.head * heads.strides[2];
  return {element_value(heads.data, at + place.first, dtype),
          element_value(heads.data, at + place.second, dtype)};
}

__device__ __forceinline__ void store_pair(const Heads& heads, const Token& token,
                                           const PairPlace& place, Dtype dtype, PairValues values) {
  const std::int64_t at = token.offset(heads) + place.head * heads.strides[2];
  store_value(heads.data, at + place.first, dtype, values.a);
  store_value(heads.data, at + place.second, dtype, values.b);
}

__device__ __forceinline__ PairValues load_pair_gains(const PairParams& params,
                                                      const PairTensor& tensor,
                                                      const PairPlace& place) {
  const std::int64_t at = tensor.norms == 1 ? std::int64_t{place.head} * params.head_dim : 0;
  const float a = element_value(tensor.g.data, at + place.first, tensor.g.dtype);
  const float b = element_value(tensor.g.data, at + place.second, tensor.g.dtype);
  return {params.one_plus_weight ? __fadd_rn(1.0f, a) : a,
          params.one_plus_weight ? __fadd_rn(1.0f, b) : b};
}

__device__ __forceinline__ void rotate_values(const PairParams& params, const PairGroup& group,
                                              const PairPlace& place, PairValues& values) {
  if (place.pair < 0) return;
  const std::int64_t position = position_of(params.angles, group.token);
  const CosSin angle = has_position(params.angles, position)
                           ? load_cos_sin(params.angles, position, place.pair)
                           : nan_cos_sin();
  rotate_pair(values.a, values.b, angle.cos, angle.sin);
}

// The sum over a block; every thread gets it.
__device__ __forceinline__ float sum_of_pair_block(float value, float* sums) {
  value = sum_of_lanes(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  return sum_of_warps(sums, kPairThreads / 32);
}

// 1 / root mean square of a group; every thread gets it, and the first writes it.
__device__ __forceinline__ float compute_rstd(const PairParams& params, const PairTensor& tensor,
                                              const PairGroup& group, float* sums) {
  float sum = 0;
  for (int p = static_cast<int>(threadIdx.x); p < group.pairs; p += kPairThreads) {
    const PairValues x =
        load_pair(tensor.in, group.token, PairPlace(params, group, p), params.dtype);
    sum = __fmaf_rn(x.a, x.a, __fmaf_rn(x.b, x.b, sum));
  }
  sum = sum_of_pair_block(sum, sums);
  const float rstd = rsqrtf(__fmaf_rn(sum, tensor.one_over_count, params.eps));
  if (threadIdx.x == 0 && tensor.rstd != nullptr) tensor.rstd[group.norm] = rstd;
  return rstd;
}

__global__ __launch_bounds__(kPairThreads) void rotate_pairs_kernel(
    const __grid_constant__ PairParams params) {
  __shared__ float sums[kPairThreads / 32];
  const auto [tensor, block] = tensor_of_block(params.tensors);
  ptx::wait_for_earlier_kernels();
  for (std::int64_t index = block; index < params.tokens * tensor.norms; index += tensor.blocks) {
    const PairGroup group(params, tensor, index);
    const float rstd = tensor.g.data != nullptr ? compute_rstd(params, tensor, group, sums) : 1;
    for (int p = static_cast<int>(threadIdx.x); p < group.pairs; p += kPairThreads) {
      const PairPlace place(params, group, p);
      PairValues values = load_pair(tensor.in, group.token, place, params.dtype);
      if (tensor.g.data != nullptr) {
        const PairValues w = load_pair_gains(params, tensor, place);
        values = {__fmul_rn(__fmul_rn(values.a, rstd), w.a),
                  __fmul_rn(__fmul_rn(values.b, rstd), w.b)};
      }
      rotate_values(params, group, place, values);
      store_pair(tensor.out, group.token, place, params.dtype, values);
    }
  }
}

// Clears the block's line of partial sums. A column of dg belongs to the same thread in every
// group: the one that has its pair.
__device__ __forceinline__ void clear_line(const PairParams& params, const PairTensor& tensor,
                                           float* line, int columns) {
  for (int p = static_cast<int>(threadIdx.x); p < columns / 2; p += kPairThreads) {
    const PairPlace place(params, PairGroup(params, tensor, 0), p);
    const int at = place.head * params.head_dim;
    line[at + place.first] = 0;
    line[at + place.second] = 0;
  }
}

// What the gradient of a pair is computed from; dn is dout rotated back.
struct GradientPair {
  PairPlace place;
  PairValues dn;
  PairValues x;
  PairValues w;

  __device__ __forceinline__ GradientPair(const PairParams& params, const PairTensor& tensor,
                                          const PairGroup& group, int index)
      : place(params, group, index), dn(load_pair(tensor.in, group.token, place, params.dtype)) {
    rotate_values(params, group, place, dn);
    x = load_pair(tensor.x, group.token, place, params.dtype);
    w = load_pair_gains(params, tensor, place);
  }
};

// The sum of dn * w * x over a thread's pairs.
__device__ __forceinline__ float sum_pair_products(const PairParams& params,
                                                   const PairTensor& tensor,
                                                   const PairGroup& group) {
  float sum = 0;
  for (int p = static_cast<int>(threadIdx.x); p < group.pairs; p += kPairThreads) {
    const auto [place, dn, x, w] = GradientPair(params, tensor, group, p);
    sum = __fmaf_rn(dn.a * w.a, x.a, __fmaf_rn(dn.b * w.b, x.b, sum));
  }
  return sum;
}

// Writes dx of a group and adds its part of dg to the block's line.
__device__ __forceinline__ void write_pair_gradients(const PairParams& params,
                                                     const PairTensor& tensor,
                                                     const PairGroup& group, float rstd, float k,
                                                     float* line) {
  for (int p = static_cast<int>(threadIdx.x); p < group.pairs; p += kPairThreads) {
    const auto [place, dn, x, w] = GradientPair(params, tensor, group, p);
    const int at = tensor.norms == 1 ? place.head * params.head_dim : 0;
    line[at + place.first] += dn.a * (x.a * rstd);
    line[at + place.second] += dn.b * (x.b * rstd);
    store_pair(tensor.out, group.token, place, params.dtype,
               {__fmul_rn(__fmaf_rn(-x.a, k, dn.a * w.a), rstd),
                __fmul_rn(__fmaf_rn(-x.b, k, dn.b * w.b), rstd)});
  }
}

__global__ __launch_bounds__(kPairThreads) void rotate_pairs_back_kernel(
    const __grid_constant__ PairParams params) {
  __shared__ float sums[kPairThreads / 32];
  const auto [tensor, block] = tensor_of_block(params.tensors);
  const int columns = tensor.norms == 1 ? tensor.heads * params.head_dim : params.head_dim;
  float* line = tensor.partials + std::int64_t{block} * columns;
  ptx::wait_for_earlier_kernels();
  clear_line(params, tensor, line, columns);
  for (std::int64_t index = block; index < params.tokens * tensor.norms; index += tensor.blocks) {
    const PairGroup group(params, tensor, index);
    const float sum = sum_of_pair_block(sum_pair_products(params, tensor, group), sums);
    const float rstd = tensor.rstd[group.norm];
    const float k = sum * tensor.one_over_count * rstd * rstd;
    write_pair_gradients(params, tensor, group, rstd, k, line);
  }
}

}  // namespace octet::sm90
