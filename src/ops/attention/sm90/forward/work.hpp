// What a block works on: one tile of queries of one head. Host and device.
//
// Dense sequences need no list: tile `item` follows from its number. Heads are cut into sections whose keys
// and values stay in the L2 cache together; a section is worked through from the last tile of queries, which
// sees the most keys under a causal mask, to the first, and each tile for all heads of the section. Blocks
// take the next item as they become free, so that the longest come first and the short ones fill the gaps.
#pragma once

#include "ops/attention/mask.hpp"

#include <cstddef>
#include <cstdint>

namespace octet::attention {

// A tile as the loader describes it to the other roles.
struct alignas(16) Work {
  std::int32_t head;      // of the queries
  std::int32_t sequence;  // -1: the rows behind the last sequence; -2: no more work
  std::int32_t row;       // of the sequence: the first of the tile
  std::int32_t queries;   // of the sequence
  BlockRange blocks;      // of keys
  std::int32_t keys;      // of the sequence
  std::int32_t shift;     // key at the place of query 0
  std::int32_t q_begin;   // ragged: first row of the sequence in the tensor
  std::int32_t k_begin;
};
inline constexpr std::int32_t kBehindSequences = -1;
inline constexpr std::int32_t kNoWork = -2;

// A tile of queries of some sequence, for all heads, where sequences are ragged.
struct alignas(16) SequenceTile {
  std::int32_t q_begin, q_end;  // rows of the sequence in the tensor
  std::int32_t k_begin, k_end;
  std::int32_t row;       // the first of the tile, in the sequence
  std::int32_t sequence;  // -1: the rows behind the last
  std::int32_t unused[2];
};

// In the workspace: the next item and the number of tiles, then the tiles.
inline constexpr std::size_t kListBegin = 16;

// The order of dense tiles.
struct DenseTiles {
  std::int32_t tiles;    // of a head
  std::int32_t heads;    // of all sequences
  std::int32_t section;  // heads

  OCTET_HOST_DEVICE constexpr std::int32_t count() const { return tiles * heads; }
};

struct DenseTile {
  std::int32_t head;  // of all sequences
  std::int32_t tile;

  friend bool operator==(const DenseTile&, const DenseTile&) = default;
};

OCTET_HOST_DEVICE constexpr DenseTile dense_tile(const DenseTiles& d, std::int32_t item) {
  const std::int32_t whole = d.section * d.tiles;
  const std::int32_t section = item / whole;
  const std::int32_t inside = item - section * whole;
  const std::int32_t first = section * d.section;
  const std::int32_t heads = d.heads - first < d.section ? d.heads - first : d.section;
  const std::int32_t round = inside / heads;
  return {first + (inside - round * heads), d.tiles - 1 - round};
}

// Heads of a section: as many as have their keys and values in `cache_bytes` together, in whole groups of
// query heads, and sections of about equal size.
constexpr std::int32_t section_heads(std::int64_t heads, std::int64_t group,
                                     std::int64_t kv_head_bytes, std::int64_t cache_bytes) {
  const std::int64_t fitting = kv_head_bytes > 0 ? cache_bytes / kv_head_bytes : heads;
  const std::int64_t groups = heads / group;
  const std::int64_t most = fitting < 1 ? 1 : fitting < groups ? fitting : groups;
  if (most == 0) return 1;
  const std::int64_t sections = (groups + most - 1) / most;
  return static_cast<std::int32_t>((groups + sections - 1) / sections * group);
}

}  // namespace octet::attention
