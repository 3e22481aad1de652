// Shared memory of the dk, dv kernel, where its boxes lie in global memory, and the work of a block.
#pragma once

#include "device/ptx/barrier.cuh"
#include "ops/attention/sm90/backward/config.hpp"
#include "ops/attention/sm90/backward/params.hpp"
#include "ops/attention/sm90/head_place.cuh"

namespace octet::attention {

// The tile of dS with which a chunk begins, less those of a kv head before it.
__device__ __forceinline__ int room_of(const BackwardParams& params, int number,
                                       const ChunkWork& of_chunk) {
  return number % kSlots * params.slot_tiles - of_chunk.first_tile;
}

// What the producer tells the consumers about a step.
struct StepInfo {
  std::int32_t query;  // the first
  std::uint32_t tile;  // of dS
};

// A block's keys, and the steps over queries that belong to them in the chunk. It lies in shared memory, so that
// the consumers hold no register for it.
struct KeyTileWork {
  int head;  // of k and v
  int sequence;
  int tile;  // of the sequence's keys
  int steps;
  // Key j is seen by queries [j + seen_from, j + seen_to) of the sequence.
  int seen_from;
  int seen_to;
  SequenceEntry entry;
  TileRange units;             // that see the tile
  TileRange full[kConsumers];  // queries that need no mask, for the keys of each consumer
  Share share;
  Chunk chunk;
  int number;  // of the chunk, over all launches
  int room;    // the tile of dS with which the chunk begins

  // Longest first: with a causal mask the first keys are seen by the most queries.
  __device__ __forceinline__ void find(const BackwardParams& params, const BlockTask& task,
                                       int queries) {
    const ChunkWork of_chunk = params.chunk(task.chunk);
    chunk = of_chunk.chunk;
    number = params.first_chunk + task.chunk;
    room = room_of(params, number, of_chunk);
    const int index = task.index / chunk.heads;
    head = chunk.first_head + task.index % chunk.heads;
    if (params.shape.packed) {
      // From the last to the first: sums that the next chunk takes up are left early, and others taken up late.
      const int place = of_chunk.first_key + of_chunk.key_blocks / chunk.heads - 1 - index;
      sequence = params.tables.key_tiles[2 * place];
      tile = params.tables.key_tiles[2 * place + 1];
    } else {
      tile = index / of_chunk.sequences;
      sequence = of_chunk.first_sequence + index % of_chunk.sequences;
    }
    share = {};
    if (sequence < 0) return;
    entry = entry_of(params.shape, params.tables, sequence);
    share = share_of(entry, params.shape.group, chunk);
    // Keys behind the last sequence get zeros.
    if (sequence == params.shape.batch) share = {true, true, true};
    const SequenceMask seen = mask(params);
    units = units_of_key_tile(seen, tile);
    seen_from = -kFar;
    if (seen.right != kNoWindow) seen_from = clip(-seen.shift - seen.right);
    seen_to = kFar;
    if (seen.left != kNoWindow) seen_to = clip(-seen.shift + seen.left + 1);
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      const std::int64_t first = std::int64_t{tile} * kTile + consumer * kWaveRows;
      full[consumer] = {};
      if (first + kWaveRows > seen.keys) continue;
      const BlockRange blocks = seen.query_blocks(first, first + kWaveRows - 1, queries);
      full[consumer] = {blocks.full_begin * queries, blocks.full_end * queries};
    }
    steps = 0;
    for (int head_of_group = 0; head_of_group < params.shape.group; ++head_of_group) {
      steps += steps_of(params, head_of_group, queries).count();
    }
  }

  __device__ __forceinline__ SequenceMask mask(const BackwardParams& params) const {
    return params.shape.mask_of(sequence, entry.queries, entry.keys);
  }

  // Where the sums of its keys are kept.
  __device__ __forceinline__ int sums_place(const BackwardParams& params) const {
    return (head - chunk.sums_head) * params.handed.tiles + tile;
  }

  // The steps of `queries` queries of one query head of the group.
  __device__ __forceinline__ TileRange steps_of(const BackwardParams& params, int head_of_group,
                                                int queries) const {
    const TileRange rows = rows_in_chunk(entry, params.shape.group, head_of_group, chunk);
    const int begin = max(units.begin, rows.begin * kRowUnits);
    const int end = min(units.end, rows.end * kRowUnits);
    const int per_unit = kTile / queries;
    return {begin * per_unit, max(begin, end) * per_unit};
  }

 private:
  static constexpr int kFar = 1 << 30;  // beyond every sequence
  static __device__ __forceinline__ int clip(std::int64_t offset) {
    return static_cast<int>(offset < -kFar ? -kFar : offset > kFar ? kFar : offset);
  }
};

template <class C>
struct alignas(1024) BackwardStorage {
  static constexpr BackwardConfig c = C::value;
  static constexpr int kPanelsQk = c.dim_qk / 64;
  static constexpr int kPanelsV = c.dim_v / 64;
  std::uint8_t k[kPanelsQk][kTile * 128];
  std::uint8_t v[kPanelsV][kTile * 128];
  std::uint8_t q[c.stages][kPanelsQk][c.queries * 128];
  std::uint8_t dout[c.stages][kPanelsV][c.queries * 128];
  float lse[c.stages][c.queries];
  float delta[c.stages][c.queries];
  StepInfo info[c.stages];
  KeyTileWork work;
  std::uint64_t kv_full;
  std::uint64_t q_full[c.stages], q_empty[c.stages];
  std::uint64_t dout_full[c.stages], dout_empty[c.stages];
};

}  // namespace octet::attention
