// Backward of rms_norm_rope for one unit of a head (cuda_sm90_units.cuh): its arithmetic, its weights
// in shared memory, and its cos and sin.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "ops/rope/cuda_sm90_heads.cuh"

namespace octet::sm90 {

// Rotates by the negative angle.
__device__ __forceinline__ void rotate_back(PairsOf4& pairs, const CosSinOf4& angles) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float x = pairs.a[i];
    const float y = pairs.b[i];
    pairs.a[i] = __fmaf_rn(x, angles.cos[i], __fmul_rn(y, angles.sin[i]));
    pairs.b[i] = __fmaf_rn(y, angles.cos[i], -__fmul_rn(x, angles.sin[i]));
  }
}

// The row of a position in the caches of cos and sin, or a negative number if they do not have it.
__device__ __forceinline__ int cache_row(const Angles& angles, std::int64_t position) {
  return has_position(angles, position) ? static_cast<int>(position) : -1;
}

// cos and sin of a unit.
struct UnitAngles {
  CosSinOf4 halves[2];

  // With angles.vectors, pitches and rows fit 32 bits.
  __device__ __forceinline__ void load(const Angles& angles, int row, int unit) {
    if (angles.vectors && row >= 0) {
      const auto* cos = static_cast<const float*>(angles.cos) + unit * kPairs;
      const auto* sin = static_cast<const float*>(angles.sin) + unit * kPairs;
      cos += std::int64_t{row} * static_cast<int>(angles.cos_pitch);
      sin += std::int64_t{row} * static_cast<int>(angles.sin_pitch);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 c = *reinterpret_cast<const float4*>(cos + 4 * half);
        const float4 s = *reinterpret_cast<const float4*>(sin + 4 * half);
        halves[half] = {{c.x, c.y, c.z, c.w}, {s.x, s.y, s.z, s.w}};
      }
      return;
    }
    // A loop: it is rare, and unrolled it takes registers from the other branch.
#pragma unroll 1
    for (int pair = 0; pair < kPairs; ++pair) {
      const CosSin one = row >= 0 ? load_cos_sin(angles, row, unit * kPairs + pair) : nan_cos_sin();
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (i == pair) halves[i / 4].set(i % 4, one);
      }
    }
  }
};

// The weights of units in shared memory as f32, four vectors each: a and b of the first four pairs,
// then of the last four. Vectors of neighbouring units are side by side.
inline constexpr int kGainBytes = kUnitElements * 4;  // of a unit
struct UnitGains {
  std::uint32_t address;  // of this thread's first vector
  std::uint32_t step;     // bytes to the next

  __device__ __forceinline__ void store(int half, const PairsOf4& w) const {
    const float* values[2] = {w.a, w.b};
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float* x = values[v];
      ptx::store_shared(address + (2 * half + v) * step, __float_as_uint(x[0]),
                        __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
    }
  }
  __device__ __forceinline__ PairsOf4 load(int half) const {
    PairsOf4 w;
    ptx::load_shared(address + 2 * half * step, w.a[0], w.a[1], w.a[2], w.a[3]);
    ptx::load_shared(address + (2 * half + 1) * step, w.b[0], w.b[1], w.b[2], w.b[3]);
    return w;
  }
};

// A unit between the two steps of its gradient: t = dn * w, where dn is dout rotated back, and x.
template <Dtype kDtype, RopeStyle kStyle>
struct GradientUnit {
  PairsOf4 t[2];
  Unit<kDtype, kStyle> x;

  // Step 1: adds the unit's part to dg, and returns its sum of t * x.
  __device__ __forceinline__ float begin(const Unit<kDtype, kStyle>& dout, bool rotated,
                                         const UnitAngles& angles, const UnitGains& gains,
                                         float rstd, PairsOf4 (&dg)[2]) {
    float sums[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      PairsOf4 dn = dout.pairs(half);
      if (rotated) rotate_back(dn, angles.halves[half]);
      const PairsOf4 w = gains.load(half);
      const PairsOf4 values = x.pairs(half);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        t[half].a[i] = __fmul_rn(dn.a[i], w.a[i]);
        t[half].b[i] = __fmul_rn(dn.b[i], w.b[i]);
        sums[half] = __fmaf_rn(t[half].a[i], values.a[i], sums[half]);
        sums[half] = __fmaf_rn(t[half].b[i], values.b[i], sums[half]);
        dg[half].a[i] = __fmaf_rn(dn.a[i], __fmul_rn(values.a[i], rstd), dg[half].a[i]);
        dg[half].b[i] = __fmaf_rn(dn.b[i], __fmul_rn(values.b[i], rstd), dg[half].b[i]);
      }
    }
    return sums[0] + sums[1];
  }

  // Step 2: dx, once k = mean(t * x) * rstd * rstd is known.
  __device__ __forceinline__ Unit<kDtype, kStyle> dx(float rstd, float k) const {
    Unit<kDtype, kStyle> result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      PairsOf4 pairs = x.pairs(half);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs.a[i] = __fmul_rn(__fmaf_rn(-pairs.a[i], k, t[half].a[i]), rstd);
        pairs.b[i] = __fmul_rn(__fmaf_rn(-pairs.b[i], k, t[half].b[i]), rstd);
      }
      result.set_pairs(half, pairs);
    }
    return result;
  }
};

// Stores dg of a unit into a line of columns in shared memory, its second eight `step` columns after
// the first.
template <RopeStyle kStyle>
__device__ __forceinline__ void store_unit_columns(std::uint32_t to, int step,
                                                   const PairsOf4 (&dg)[2]) {
  Unit<Dtype::f32, kStyle> unit;
  unit.set_pairs(0, dg[0]);
  unit.set_pairs(1, dg[1]);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Eight<Dtype::f32>& eight = i == 0 ? unit.first : unit.second;
    const std::uint32_t at = to + static_cast<std::uint32_t>(4 * i * step);
    ptx::store_shared(at, eight.words[0], eight.words[1], eight.words[2], eight.words[3]);
    ptx::store_shared(at + 16, eight.words[4], eight.words[5], eight.words[6], eight.words[7]);
  }
}

}  // namespace octet::sm90
