// The configurations of attention's Hopper forward: plain numbers with a text form, the list of those that
// are compiled, and the shared memory that follows, for tests without a GPU.
#pragma once

#include "device/mma/layout.hpp"

#include <octet/dtype.hpp>

#include <string>

namespace octet {

struct Sm90AttentionForwardConfig {
  Dtype dtype = Dtype::bf16;
  int dim_qk = 128;     // of a tile; narrower heads are filled with zeros
  int dim_v = 128;      // the same
  int tile_q = 128;     // queries of a block, 64 per consumer
  int tile_k = 128;     // keys of a step
  int stages = 2;       // of keys, and of values
  int query_slots = 2;  // tiles of queries: with two, the next one loads while this one is stored

  friend constexpr bool operator==(const Sm90AttentionForwardConfig&,
                                   const Sm90AttentionForwardConfig&) = default;
};

namespace attention {

inline constexpr int kConsumerRows = 64;  // queries of a warpgroup: one wgmma
inline constexpr int kSharedAlignment = 1024;
inline constexpr int kSharedLimit = 232448;  // bytes a block may ask for on Hopper

constexpr int consumers(const Sm90AttentionForwardConfig& c) { return c.tile_q / kConsumerRows; }
// Warp 0 of the first warpgroup loads, and each of the next ones stores the rows of a consumer.
constexpr int threads(const Sm90AttentionForwardConfig& c) { return 128 * (consumers(c) + 1); }
// Registers of a thread that loads or stores, and of one that multiplies: 504 or 512 of three or four warpgroups.
constexpr int loader_registers(const Sm90AttentionForwardConfig& c) {
  return consumers(c) == 2 ? 24 : 32;
}
constexpr int consumer_registers(const Sm90AttentionForwardConfig& c) {
  return consumers(c) == 2 ? 240 : 160;
}

// The maximum that a row's exponents are relative to is replaced where a block exceeds it by more than this, in
// powers of two; then what was summed before is rescaled. With 8, hardly any block after the first does that, and
// a vote skips it: 654 against 615 TFLOPS for heads of 128. Heads of 64 have half as much to rescale, and the
// vote costs more than it saves (516 against 528): every block has its own maximum.
constexpr float least_growth(const Sm90AttentionForwardConfig& c) { return c.dim_v > 64 ? 8 : 0; }

constexpr int q_bytes(const Sm90AttentionForwardConfig& c) { return c.tile_q * c.dim_qk * 2; }
constexpr int k_bytes(const Sm90AttentionForwardConfig& c) { return c.tile_k * c.dim_qk * 2; }
constexpr int v_bytes(const Sm90AttentionForwardConfig& c) { return c.tile_k * c.dim_v * 2; }

inline constexpr int kWorkBytes = 64;  // of one tile's description, work.hpp

// Where each part of the shared memory begins, in bytes from its 1024-byte aligned start.
struct ForwardSharedPlan {
  int q;         // [query_slots][tile_q * dim_qk], later the results of the tile
  int k;         // [stages][tile_k * dim_qk]
  int v;         // [stages][tile_k * dim_v]
  int work;      // [query_slots]
  int barriers;  // full and empty: of query slots, of keys, of values; then results of each consumer
  int bytes;
};
constexpr int barrier_count(const Sm90AttentionForwardConfig& c) {
  return 2 * c.query_slots + 4 * c.stages + c.query_slots * consumers(c);
}
constexpr ForwardSharedPlan shared_plan(const Sm90AttentionForwardConfig& c) {
  ForwardSharedPlan plan{};
  plan.k = plan.q + c.query_slots * q_bytes(c);
  plan.v = plan.k + c.stages * k_bytes(c);
  plan.work = plan.v + c.stages * v_bytes(c);
  plan.barriers = plan.work + c.query_slots * kWorkBytes;
  plan.bytes = plan.barriers + 8 * barrier_count(c);
  return plan;
}
// Bytes a launch asks for: the plan, and room to align it.
constexpr int shared_bytes(const Sm90AttentionForwardConfig& c) {
  return shared_plan(c).bytes + kSharedAlignment;
}

}  // namespace attention

// Every configuration that is compiled: forward_kernels.cu makes one kernel of each. The first that holds a
// head runs it.
inline constexpr Sm90AttentionForwardConfig kSm90AttentionForwardConfigs[] = {
    {Dtype::bf16, 64, 64, 192, 128, 3, 2},   {Dtype::f16, 64, 64, 192, 128, 3, 2},
    {Dtype::bf16, 128, 128, 128, 128, 2, 2}, {Dtype::f16, 128, 128, 128, 128, 2, 2},
    {Dtype::bf16, 192, 128, 128, 128, 2, 1}, {Dtype::f16, 192, 128, 128, 128, 2, 1},
};

// "128x128x2 heads of 128x128 bf16": tile and stages, head sizes, dtype.
std::string name(const Sm90AttentionForwardConfig& c);

}  // namespace octet
