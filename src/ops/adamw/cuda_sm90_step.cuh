// The step of adamw in a Hopper kernel: one element, and eight neighbours of every tensor from the
// load to the store.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/rows/eight.cuh"
#include "device/rows/element.cuh"
#include "ops/adamw/problem.hpp"

namespace octet::sm90 {

inline constexpr int kAdamWThreads = 256;

struct AdamWParams {
  void* w;                  // [count]
  const void* g;            // [count]
  void* m;                  // [count]
  void* v;                  // [count]
  float* master;            // [count], or null
  const float* grad_scale;  // [1], or null
  std::int64_t count;
  AdamWFactors factors;
  Dtype dtype, grad_dtype, moments_dtype;  // for kernels that do not have them at compile time
};

// The dtypes of one kernel.
template <Dtype kWeight, Dtype kGrad, Dtype kMoments, bool kHasMaster>
struct AdamWTypes {
  static constexpr Dtype kW = kWeight, kG = kGrad, kM = kMoments;
  static constexpr bool kMaster = kHasMaster;
  static constexpr Dtype kRead = kMaster ? Dtype::f32 : kW;  // what the weight is read from
  static constexpr int kLoadedBytes =
      kEight * (size_bytes(kRead) + size_bytes(kG) + 2 * size_bytes(kM));
  // Eights per thread: at most 128 bytes of loads in flight.
  static constexpr int kEights = kLoadedBytes <= 64 ? 2 : 1;
};

struct AdamWElement {
  float w, m, v;
};

// The order of octet/ops/adamw.hpp; `g` is scaled already.
__device__ __forceinline__ AdamWElement adamw_step(const AdamWFactors& f, AdamWElement old,
                                                   float g) {
  AdamWElement next;
  next.m = __fmaf_rn(f.beta1, old.m, __fmul_rn(f.rest1, g));
  next.v = __fmaf_rn(f.beta2, old.v, __fmul_rn(__fmul_rn(f.rest2, g), g));
  const float root = __fmaf_rn(__fsqrt_rn(next.v), f.root_factor, f.eps);
  next.w = __fmaf_rn(-f.step_size, __fdiv_rn(next.m, root), __fmul_rn(old.w, f.decay));
  return next;
}

__device__ __forceinline__ float grad_scale_of(const AdamWParams& params) {
  return params.grad_scale == nullptr ? 1.0f : *params.grad_scale;
}

// One element of any dtypes and alignment. Returns the new weight, not rounded.
__device__ __forceinline__ float update_element(const AdamWParams& params, float scale,
                                                std::int64_t i) {
  const float w =
      params.master != nullptr ? params.master[i] : load_element(params.w, i, params.dtype);
  const AdamWElement next =
      adamw_step(params.factors,
                 {w, load_element(params.m, i, params.moments_dtype),
                  load_element(params.v, i, params.moments_dtype)},
                 __fmul_rn(load_element(params.g, i, params.grad_dtype), scale));
  store_element(params.m, i, params.moments_dtype, next.m);
  store_element(params.v, i, params.moments_dtype, next.v);
  if (params.master != nullptr) params.master[i] = next.w;
  store_element(params.w, i, params.dtype, next.w);
  return next.w;
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> load_stream(const void* tensor, std::int64_t first,
                                                     std::uint64_t policy) {
  const char* from = static_cast<const char*>(tensor) + first * kElementBytes<kDtype>;
  return load_vectors<kDtype>(
      [from, policy](int offset) { return ptx::load_global(from + offset, policy); });
}

template <Dtype kDtype>
__device__ __forceinline__ void store_stream(void* tensor, std::int64_t first,
                                             const Eight<kDtype>& eight, std::uint64_t policy) {
  char* to = static_cast<char*>(tensor) + first * kElementBytes<kDtype>;
#pragma unroll
  for (int v = 0; v < Eight<kDtype>::kWords / 4; ++v) {
    ptx::store_global(to + 16 * v,
                      make_uint4(eight.words[4 * v], eight.words[4 * v + 1], eight.words[4 * v + 2],
                                 eight.words[4 * v + 3]),
                      policy);
  }
}

// Elements i and i + 1, i even.
template <Dtype kDtype>
__device__ __forceinline__ void assign_pair(Eight<kDtype>& eight, int i, float low, float high) {
  if constexpr (kDtype == Dtype::f32) {
    eight.words[i] = __float_as_uint(low);
    eight.words[i + 1] = __float_as_uint(high);
  } else {
    eight.words[i / 2] = encode_pair<kDtype>(low, high);
  }
}

// Eight elements of every tensor, from the load to the store.
template <class Types>
struct AdamWEight {
  Eight<Types::kRead> w;
  Eight<Types::kG> g;
  Eight<Types::kM> m;
  Eight<Types::kM> v;

  __device__ __forceinline__ void load(const AdamWParams& params, std::int64_t first,
                                       std::uint64_t policy) {
    w = load_stream<Types::kRead>(Types::kMaster ? params.master : params.w, first, policy);
    g = load_stream<Types::kG>(params.g, first, policy);
    m = load_stream<Types::kM>(params.m, first, policy);
    v = load_stream<Types::kM>(params.v, first, policy);
  }

  // Pair by pair in place, so that few floats are alive at a time.
  __device__ __forceinline__ void update(const AdamWFactors& factors, float scale,
                                         Eight<Types::kW>& rounded) {
#pragma unroll
    for (int i = 0; i < kEight; i += 2) {
      const AdamWElement low = adamw_step(factors, {w[i], m[i], v[i]}, __fmul_rn(g[i], scale));
      const AdamWElement high =
          adamw_step(factors, {w[i + 1], m[i + 1], v[i + 1]}, __fmul_rn(g[i + 1], scale));
      assign_pair(m, i, low.m, high.m);
      assign_pair(v, i, low.v, high.v);
      assign_pair(w, i, low.w, high.w);
      if constexpr (Types::kMaster) assign_pair(rounded, i, low.w, high.w);
    }
  }

  // Returns the new weights as they are stored.
  __device__ __forceinline__ Eight<Types::kW> update_and_store(const AdamWParams& params,
                                                               float scale, std::int64_t first,
                                                               std::uint64_t policy) {
    Eight<Types::kW> rounded;  // only with a master copy
    update(params.factors, scale, rounded);
    store_stream(params.m, first, m, policy);
    store_stream(params.v, first, v, policy);
    if constexpr (Types::kMaster) {
      store_stream(params.master, first, w, policy);
      store_stream(params.w, first, rounded, policy);
      return rounded;
    } else {
      store_stream(params.w, first, w, policy);
      return w;
    }
  }
};

}  // namespace octet::sm90
