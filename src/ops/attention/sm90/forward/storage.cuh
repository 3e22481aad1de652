// The parameters of attention's Hopper forward, its tensor maps and its shared memory.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/barrier.cuh"
#include "ops/attention/sm90/forward/config.hpp"
#include "ops/attention/sm90/forward/work.hpp"

#include <cuda.h>

#include <cstddef>

namespace octet::attention {

struct ForwardMaps {
  CUtensorMap q;    // boxes of 64 columns x 64 rows
  CUtensorMap k;    // 64 columns x tile_k rows
  CUtensorMap v;    // the same
  CUtensorMap out;  // 64 columns x 64 rows; only for 16-bit results
};

struct ForwardParams {
  // The tiles: of dense sequences, or `tile_count` of ragged ones for each of heads_q heads.
  DenseTiles dense;
  const SequenceTile* tiles;       // null: dense
  const std::int32_t* tile_count;  // the same
  std::int32_t* next_item;         // starts at 0; null: no more items than blocks
  std::int32_t heads_q;
  std::int32_t group;  // query heads of a key head
  std::int32_t seq_q;  // dense
  std::int32_t seq_kv;
  AttentionMask mask;
  float scale;        // without its sign
  float scale_log2;   // times log2(e)
  bool negate;        // the scale is negative
  const float* sink;  // [heads_q], or null
  std::int64_t sink_stride;
  float* lse;  // [batch, heads_q, seq_q] or [heads_q, total_q], or null
  std::int64_t lse_batch;
  std::int64_t lse_head;
  float* out;  // f32 results, [batch, seq_q, heads_q, dim_v]; null: 16-bit ones, by the map
  std::int64_t out_batch;
  std::int64_t out_row;
  std::int64_t out_head;
  std::int32_t dim_v;
};

template <class C>
struct alignas(1024) ForwardStorage {
  static constexpr Sm90AttentionForwardConfig c = C::value;
  std::uint8_t q[c.query_slots][q_bytes(c)];
  std::uint8_t k[c.stages][k_bytes(c)];
  std::uint8_t v[c.stages][v_bytes(c)];
  alignas(kWorkBytes) std::uint8_t work[c.query_slots][kWorkBytes];
  std::uint64_t q_full[c.query_slots];
  std::uint64_t q_empty[c.query_slots];
  std::uint64_t k_full[c.stages];
  std::uint64_t k_empty[c.stages];
  std::uint64_t v_full[c.stages];
  std::uint64_t v_empty[c.stages];
  std::uint64_t out_full[c.query_slots][consumers(c)];

  // Shared addresses, from that of the storage.
  static __device__ __forceinline__ std::uint32_t q_at(std::uint32_t base, int slot) {
    return base + offsetof(ForwardStorage, q) + slot * q_bytes(c);
  }
  static __device__ __forceinline__ std::uint32_t k_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, k) + stage * k_bytes(c);
  }
  static __device__ __forceinline__ std::uint32_t v_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, v) + stage * v_bytes(c);
  }
  static __device__ __forceinline__ std::uint32_t work_at(std::uint32_t base, int slot) {
    return base + offsetof(ForwardStorage, work) + slot * kWorkBytes;
  }
  // And of barriers.
  static __device__ __forceinline__ std::uint32_t q_full_at(std::uint32_t base, int slot) {
    return base + offsetof(ForwardStorage, q_full) + 8 * slot;
  }
  static __device__ __forceinline__ std::uint32_t q_empty_at(std::uint32_t base, int slot) {
    return base + offsetof(ForwardStorage, q_empty) + 8 * slot;
  }
  static __device__ __forceinline__ std::uint32_t k_full_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, k_full) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t k_empty_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, k_empty) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t v_full_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, v_full) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t v_empty_at(std::uint32_t base, int stage) {
    return base + offsetof(ForwardStorage, v_empty) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t out_full_at(std::uint32_t base, int slot,
                                                              int consumer) {
    return base + offsetof(ForwardStorage, out_full) + 8 * (slot * consumers(c) + consumer);
  }
};
static_assert(sizeof(Work) <= kWorkBytes);

template <class C>
constexpr bool follows_plan() {
  using Storage = ForwardStorage<C>;
  constexpr ForwardSharedPlan plan = shared_plan(C::value);
  return offsetof(Storage, q) == plan.q && offsetof(Storage, k) == plan.k &&
         offsetof(Storage, v) == plan.v && offsetof(Storage, work) == plan.work &&
         offsetof(Storage, q_full) == plan.barriers &&
         offsetof(Storage, out_full) + sizeof(Storage::out_full) == plan.bytes;
}

// A place in a ring of stages, and the parity of its barriers' phase.
template <int kStages>
struct RingPlace {
  std::int32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace octet::attention
