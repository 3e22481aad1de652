// A consumer warpgroup of the dk, dv kernel: 64 keys, their gradients in registers, and one step over a block
// of queries. Scores are transposed: a thread has two keys, and a quarter of the queries of a step.
//
//   S = K Q^T, dP = V dO^T             both operands from shared memory
//   P = exp2(S c - lse), dS = P (dP - delta)
//   dV += P dO, dK += dS Q             P and dS from registers, as the products left them
//
// dS is stored from the registers in 16 bits. Staged in shared memory for the copy engine it cost 15 to 25 % of
// the kernel: the products of 64 queries read shared memory at its full rate.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/arithmetic.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/wgmma16.cuh"
#include "ops/attention/sm90/backward/storage.cuh"

namespace octet::attention {

template <class T>
__device__ __forceinline__ T opaque(T value) {
  return __shfl_sync(~0u, value, 0);
}

template <Dtype kDtype>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  return kDtype == Dtype::bf16 ? ptx::bf16x2_from_f32(low, high) : ptx::f16x2_from_f32(low, high);
}
template <Dtype kDtype>
__device__ __forceinline__ void unpack(std::uint32_t pair, float& low, float& high) {
  if constexpr (kDtype == Dtype::bf16) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xFFFF0000u);
  } else {
    low = ptx::f32_from_f16_bits(pair & 0xFFFF);
    high = ptx::f32_from_f16_bits(pair >> 16);
  }
}

__device__ __forceinline__ int consumer_index() { return threadIdx.x / 128 - 1; }
__device__ __forceinline__ void consumer_sync(int consumer) {
  if (consumer == 0) {
    ptx::named_barrier_sync<1, 128>();
  } else {
    ptx::named_barrier_sync<2, 128>();
  }
}

template <class C>
struct KeyConsumer {
  static constexpr BackwardConfig c = C::value;
  using Storage = BackwardStorage<C>;
  static constexpr int kValues = c.queries / 2;  // of a product over the queries, per thread
  static constexpr int kWords = c.queries / 4;
  // lse and delta are loaded before the wait for the product they meet, where registers are left for them.
  static constexpr bool kLoadsEarly = c.queries == 64;

  std::uint32_t base;
  int consumer;
  int stage = 0;
  std::uint32_t parity = 0;
  float dk[c.dim_qk / 2];
  float dv[c.dim_v / 2];

  __device__ __forceinline__ explicit KeyConsumer(std::uint32_t base_)
      : base(opaque(base_)), consumer(opaque(consumer_index())) {}

  // One step; `work` is read where a block touches an edge of the mask.
  __device__ __forceinline__ void step(const BackwardParams& params, const KeyTileWork& work) {
    std::uint32_t p_words[kWords];
    std::uint32_t ds_words[kWords];
    float scores[kValues];
    float dp[c.together ? kValues : 1];

    // Scores
    ptx::barrier_wait(base + offsetof(Storage, q_full) + 8 * stage, parity);
    ptx::wgmma_fence();
    multiply_scores(scores);
    ptx::wgmma_commit();
    ptx::barrier_wait(base + offsetof(Storage, dout_full) + 8 * stage, parity);
    if constexpr (c.together) {
      ptx::wgmma_fence();
      multiply_dp(dp);
      ptx::wgmma_commit();
    }
    RowValues lse(*this, offsetof(Storage, lse));
    if constexpr (c.together) {
      ptx::wgmma_wait<1>();
    } else {
      ptx::wgmma_wait<0>();
    }
    ptx::pin(scores);

    // Probabilities
#pragma unroll
    for (int i = 0; i < kValues; i += 4) {
      const auto [even, odd] = lse.of(*this, i / 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i + j] =
            ptx::exp2_approx(__fmaf_rn(scores[i + j], params.factor, j % 2 == 0 ? -even : -odd));
      }
    }
    const auto query = static_cast<int>(ptx::load_shared_word(info_at()));
    if (query < work.full[consumer].begin || query >= work.full[consumer].end) {
      hide(scores, query, work);
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      p_words[i] = pack<c.dtype>(scores[2 * i], scores[2 * i + 1]);
    }
    if constexpr (!c.together) {
      ptx::wgmma_fence();
      multiply_dp(scores);
      ptx::wgmma_commit();
    }
    if constexpr (c.dv_first) {
      ptx::wgmma_fence();
      multiply_dv(p_words);
      ptx::wgmma_commit();
    }

    // dS
    RowValues delta(*this, offsetof(Storage, delta));
    if constexpr (c.dv_first) {
      ptx::wgmma_wait<1>();
    } else {
      ptx::wgmma_wait<0>();
    }
    if constexpr (c.together) {
      ptx::pin(dp);
    } else {
      ptx::pin(scores);
    }
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      const auto [even, odd] = delta.of(*this, i / 2);
#pragma unroll
      for (int j = i; j < i + 2; ++j) {
        if constexpr (c.together) {
          ds_words[j] = pack<c.dtype>(scores[2 * j] * (dp[2 * j] - even),
                                      scores[2 * j + 1] * (dp[2 * j + 1] - odd));
        } else {
          float low, high;
          unpack<c.dtype>(p_words[j], low, high);
          ds_words[j] =
              pack<c.dtype>(low * (scores[2 * j] - even), high * (scores[2 * j + 1] - odd));
        }
      }
    }

    // Gradients of the keys, and dS on its way meanwhile
    ptx::wgmma_fence();
    if constexpr (!c.dv_first) {
      multiply_dv(p_words);
      ptx::wgmma_commit();
    }
    multiply_dk(ds_words);
    ptx::wgmma_commit();
    store_ds(ds_words, params);
    ptx::wgmma_wait<1>();
    release(offsetof(Storage, dout_empty));
    ptx::wgmma_wait<0>();
    ptx::pin(dk);
    ptx::pin(dv);
    release(offsetof(Storage, q_empty));
    stage = stage + 1 == c.stages ? 0 : stage + 1;
    parity ^= stage == 0;
  }

 private:
  __device__ __forceinline__ std::uint32_t info_at() const {
    return base + offsetof(Storage, info) + stage * sizeof(StepInfo);
  }
  static __device__ __forceinline__ std::uint64_t descriptor(std::uint32_t low) {
    return ptx::join64(low, kDescriptorHigh);
  }

  __device__ __forceinline__ void multiply_scores(float (&to)[kValues]) {
    const std::uint32_t a =
        descriptor_low(base + offsetof(Storage, k) + consumer * kWaveRows * kRowBytes);
    const std::uint32_t b =
        descriptor_low(base + offsetof(Storage, q) + stage * sizeof(Storage::q[0]));
#pragma unroll
    for (int i = 0; i < c.dim_qk; i += 16) {
      ptx::wgmma16<c.dtype, ptx::Major::k, ptx::Major::k>(
          to, descriptor(a + (panel_offset(kTile, i) >> 4)),
          descriptor(b + (panel_offset(c.queries, i) >> 4)), i > 0);
    }
  }
  __device__ __forceinline__ void multiply_dp(float (&to)[kValues]) {
    const std::uint32_t a =
        descriptor_low(base + offsetof(Storage, v) + consumer * kWaveRows * kRowBytes);
    const std::uint32_t b =
        descriptor_low(base + offsetof(Storage, dout) + stage * sizeof(Storage::dout[0]));
#pragma unroll
    for (int i = 0; i < c.dim_v; i += 16) {
      ptx::wgmma16<c.dtype, ptx::Major::k, ptx::Major::k>(
          to, descriptor(a + (panel_offset(kTile, i) >> 4)),
          descriptor(b + (panel_offset(c.queries, i) >> 4)), i > 0);
    }
  }
  template <int kCount>
  __device__ __forceinline__ void multiply_fragments(float (&to)[kCount],
                                                     const std::uint32_t (&words)[kWords],
                                                     std::uint32_t tile) {
    const std::uint32_t b = descriptor_low_mn(tile, c.queries);
#pragma unroll
    for (int i = 0; i < c.queries / 16; ++i) {
      const ptx::Fragment a{{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]}};
      ptx::wgmma16<c.dtype, ptx::Major::mn>(to, a, descriptor(b + i * (kStepMnBytes >> 4)), 1);
    }
  }
  __device__ __forceinline__ void multiply_dv(const std::uint32_t (&words)[kWords]) {
    multiply_fragments(dv, words,
                       base + offsetof(Storage, dout) + stage * sizeof(Storage::dout[0]));
  }
  __device__ __forceinline__ void multiply_dk(const std::uint32_t (&words)[kWords]) {
    multiply_fragments(dk, words, base + offsetof(Storage, q) + stage * sizeof(Storage::q[0]));
  }

  // lse or delta of the queries of a step: the thread has two of each group of eight.
  class RowValues {
   public:
    __device__ __forceinline__ RowValues(const KeyConsumer& consumer, std::uint32_t array)
        : array_(array) {
      if constexpr (kLoadsEarly) {
#pragma unroll
        for (int i = 0; i < kWords / 2; ++i) values_[i] = load(consumer, i);
      }
    }
    __device__ __forceinline__ float2 of(const KeyConsumer& consumer, int group) const {
      return kLoadsEarly ? values_[group % kLoaded] : load(consumer, group);
    }

   private:
    static constexpr int kLoaded = kLoadsEarly ? kWords / 2 : 1;
    __device__ __forceinline__ float2 load(const KeyConsumer& consumer, int group) const {
      const std::uint32_t from = consumer.base + array_ + consumer.stage * sizeof(Storage::lse[0]) +
                                 ptx::lane_index() % 4 * 8;
      float2 pair;
      ptx::load_shared(from + group * 32, pair.x, pair.y);
      return pair;
    }
    std::uint32_t array_;
    float2 values_[kLoaded];
  };

  // Probabilities of what the mask hides, and of keys behind the last, become 0. Those of queries behind the last
  // are 0 already: their lse is infinite.
  __device__ __forceinline__ void hide(float (&p)[kValues], int query,
                                       const KeyTileWork& work) const {
    const int seen_from = work.seen_from, keys = work.entry.keys;
    const int seen_to = work.seen_to;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key =
          work.tile * kTile + consumer * kWaveRows + accumulator_row(threadIdx.x % 128, 2 * half);
      const int first = query + ptx::lane_index() % 4 * 2;
      const int begin = key + seen_from - first;
      const int end = key < keys ? key + seen_to - first : begin;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int column = i / 2 * 8 + i % 2;
        if (column < begin || column >= end) p[i / 2 * 4 + half * 2 + i % 2] = 0;
      }
    }
  }

  // The boxes of this consumer's keys leave from the registers: the 8x8 matrices that a warp holds are 128
  // contiguous bytes each.
  __device__ __forceinline__ void store_ds(const std::uint32_t (&words)[kWords],
                                           const BackwardParams& params) {
    const auto query = static_cast<int>(ptx::load_shared_word(info_at()));
    const std::uint32_t tile = ptx::load_shared_word(info_at() + 4);
    const int warp = threadIdx.x / 32 % 4;
    unsigned char* to = params.ds + static_cast<std::int64_t>(tile) * kTileBytes +
                        box_offset(consumer, query / kBox % 2) + matrix_offset(2 * warp, 0) +
                        ptx::lane_index() * 4;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int at = i / 16 * kBoxBytes + matrix_offset(i % 2, i % 16 / 2);
      *reinterpret_cast<std::uint32_t*>(to + at) = words[i];
    }
  }

  // All lanes have read what they need of the stage.
  __device__ __forceinline__ void release(std::uint32_t barriers) const {
    __syncwarp();
    if (ptx::elect_lane()) ptx::barrier_arrive(base + barriers + 8 * stage);
  }
};

}  // namespace octet::attention
