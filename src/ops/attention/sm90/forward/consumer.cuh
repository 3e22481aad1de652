// A consumer of attention's Hopper forward: 64 queries of a tile against all key blocks.
//
// The products of block n are issued together with p v of the block before (n + 1), which runs under the
// softmax of n. Nothing is in flight at the end of a step: what ptxas asks for to keep wgmma asynchronous.
#pragma once

#include "device/ptx/registers.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/wgmma16.cuh"
#include "ops/attention/sm90/forward/storage.cuh"
#include "ops/attention/sm90/forward/softmax.cuh"

namespace octet::attention {

template <class C>
class Consumer {
 public:
  static constexpr Sm90AttentionForwardConfig c = C::value;
  using Storage = ForwardStorage<C>;

  std::uint32_t base;
  int index;  // of the consumer
  RingPlace<c.stages> k, v;
  float s[c.tile_k / 2];           // (n/8*4), scores, then their exponentials
  ptx::Fragment p[c.tile_k / 16];  // the same, 16 bits, of the block before
  float o[c.dim_v / 2];            // (n/8*4)
  RowState rows;

  __device__ __forceinline__ Consumer(std::uint32_t base_, int index_)
      : base(base_), index(index_) {}

  // All of a tile's products. `first_row`: this thread's, in the sequence.
  __device__ __forceinline__ void multiply(const ForwardParams& params, const Work& work, int slot,
                                           std::int32_t first_row) {
    q_low_ = descriptor_low(Storage::q_at(base, slot) + index * kConsumerRows * kRowBytes);
    rows.clear();
#pragma unroll
    for (int i = 0; i < c.dim_v / 2; ++i) o[i] = 0;
    std::int32_t n = work.blocks.end - 1;
    if (n < work.blocks.begin) return;

    await_keys();
    issue_scores();
    ptx::wgmma_wait();
    ptx::pin(s);
    release_keys();
    hide(params, work, n, first_row);
    softmax(s, params.scale_log2, least_growth(c), rows);
    pack();
    --n;
    // Blocks with a mask, those without, and again those with: behind a causal edge, and before a window.
    std::int32_t masked_end = work.blocks.full_end, full_end = work.blocks.full_begin;
#pragma unroll 1
    for (;;) {
#pragma unroll 1
      for (; n >= masked_end; --n) step<true>(params, work, n, first_row);
#pragma unroll 1
      for (; n >= full_end; --n) step<false>(params, work, n, first_row);
      if (n < work.blocks.begin) break;
      masked_end = full_end = work.blocks.begin;
    }
    rescale();
    await_values();
    issue_values();
    ptx::wgmma_wait();
    ptx::pin(o);
    release_values();
  }

  // Changes the sign of this consumer's queries.
  __device__ __forceinline__ void negate_queries(int slot) const {
    const std::uint32_t q = Storage::q_at(base, slot) + index * kConsumerRows * kRowBytes;
#pragma unroll 1
    for (int panel = 0; panel < c.dim_qk / kPanelCols; ++panel) {
#pragma unroll 1
      for (int at = threadIdx.x % 128 * 16; at < kConsumerRows * kRowBytes; at += 128 * 16) {
        const std::uint32_t address = q + panel * c.tile_q * kRowBytes + at;
        std::uint32_t words[4];
        ptx::load_shared(address, words[0], words[1], words[2], words[3]);
        constexpr std::uint32_t kSigns = 0x80008000u;
        ptx::store_shared(address, words[0] ^ kSigns, words[1] ^ kSigns, words[2] ^ kSigns,
                          words[3] ^ kSigns);
      }
    }
  }

 private:
  template <bool kMasked>
  __device__ __forceinline__ void step(const ForwardParams& params, const Work& work,
                                       std::int32_t n, std::int32_t first_row) {
    await_keys();
    issue_scores();
    rescale();  // under the scores
    await_values();
    issue_values();
    ptx::wgmma_wait<1>();
    ptx::pin(s);
    release_keys();
    if constexpr (kMasked) hide(params, work, n, first_row);
    softmax(s, params.scale_log2, least_growth(c), rows);
    ptx::wgmma_wait();
    ptx::pin(o);
    release_values();
    pack();
  }

  __device__ __forceinline__ void await_keys() const {
    ptx::barrier_wait(Storage::k_full_at(base, k.stage), k.parity);
  }
  __device__ __forceinline__ void await_values() const {
    ptx::barrier_wait(Storage::v_full_at(base, v.stage), v.parity);
  }
  __device__ __forceinline__ void release_keys() {
    if (ptx::elect_lane()) ptx::barrier_arrive(Storage::k_empty_at(base, k.stage));
    k.advance();
  }
  __device__ __forceinline__ void release_values() {
    if (ptx::elect_lane()) ptx::barrier_arrive(Storage::v_empty_at(base, v.stage));
    v.advance();
  }

  // s = q k^T of the current stage of keys.
  __device__ __forceinline__ void issue_scores() {
    const std::uint32_t k_low = descriptor_low(Storage::k_at(base, k.stage));
    ptx::pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int at = 0; at < c.dim_qk; at += 16) {
      ptx::wgmma16<c.dtype, ptx::Major::k, ptx::Major::k>(
          s, ptx::join64(q_low_ + panel_offset(c.tile_q, at) / 16, kDescriptorHigh),
          ptx::join64(k_low + panel_offset(c.tile_k, at) / 16, kDescriptorHigh), at > 0);
    }
    ptx::wgmma_commit();
  }

  // o += p v of the current stage of values.
  __device__ __forceinline__ void issue_values() {
    const std::uint32_t v_low = descriptor_low_mn(Storage::v_at(base, v.stage), c.tile_k);
    ptx::pin(o);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < c.tile_k / 16; ++step) {
      ptx::wgmma16<c.dtype, ptx::Major::mn>(
          o, p[step], ptx::join64(v_low + step * (kStepMnBytes / 16), kDescriptorHigh), 1);
    }
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ void rescale() {
    if constexpr (least_growth(c) > 0) {
      if (!__any_sync(~0u, rows.rescale[0] != 1 || rows.rescale[1] != 1)) return;
    }
#pragma unroll
    for (int i = 0; i < c.dim_v / 2; ++i) o[i] *= rows.rescale[i % 4 / 2];
  }

  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int i = 0; i < c.tile_k / 2; i += 2) {
      p[i / 8].words[i % 8 / 2] = c.dtype == Dtype::bf16 ? ptx::bf16x2_from_f32(s[i], s[i + 1])
                                                         : ptx::f16x2_from_f32(s[i], s[i + 1]);
    }
  }

  __device__ __forceinline__ void hide(const ForwardParams& params, const Work& work,
                                       std::int32_t n, std::int32_t first_row) {
    const std::int32_t first_col = n * c.tile_k + static_cast<std::int32_t>(threadIdx.x % 4 * 2);
    std::int32_t begin[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int32_t place = first_row + 8 * r + work.shift;
      const auto left = static_cast<std::int32_t>(params.mask.left);
      const auto right = static_cast<std::int32_t>(params.mask.right);
      begin[r] = (left < 0 ? 0 : place - left) - first_col;
      end[r] = (right < 0 ? work.keys : min(work.keys, place + right + 1)) - first_col;
    }
    hide_columns(s, begin, end);
  }

  std::uint32_t q_low_;
};

}  // namespace octet::attention
