// Where the backward pass keeps dS, and which tiles of it exist. Host and device.
//
// dS is stored in tiles of 128 queries x 128 keys, only those in which something is visible. The queries of a
// sequence are cut into rows of 256: two units of 128. Rows are numbered over all sequences, each of which
// begins a row of its own. One query head stores the tiles of its units one unit behind the other; the
// query heads of a kv head follow each other inside a sequence:
//
//   order of tiles   kv head of the chunk, sequence, query head of the group, unit, key tile
//
// Where sequences have offsets the host does not know their lengths: there the device cuts them into chunks
// (parts.hpp).
//
// A chunk is a range of kv heads and a range of the rows of a kv head, counted in that order ("group rows").
#pragma once

#include "ops/attention/mask.hpp"

#include <cstdint>

namespace octet::attention {

inline constexpr int kTile = 128;  // queries of a unit; keys of a tile
inline constexpr int kBox =
    64;  // queries and keys of a box: 128-byte rows with the 128-byte swizzle
inline constexpr int kRow = 256;  // queries of a row
inline constexpr int kRowUnits = kRow / kTile;
inline constexpr int kBoxBytes = kBox * kBox * 2;
inline constexpr int kTileBytes = kTile * kTile * 2;

// The box of a tile, by its half of the keys and of the queries: the boxes of 64 keys are neighbours, since the
// dq kernel loads them together.
OCTET_HOST_DEVICE constexpr int box_offset(int key_half, int query_half) {
  return (key_half * 2 + query_half) * kBoxBytes;
}

// A box is stored as 8x8 matrices of 128 bytes, each with the keys as its rows: first the queries, then the keys
// by eights. That is how the warps of the dk, dv kernel hold it, and, as an operand whose rows are the contraction,
// how the tensor cores read it without a swizzle.
inline constexpr int kMatrixBytes = 128;
OCTET_HOST_DEVICE constexpr int matrix_offset(int keys_by_eight, int queries_by_eight) {
  return (keys_by_eight * (kBox / 8) + queries_by_eight) * kMatrixBytes;
}

// One sequence. Behind the last one of a packed tensor there is one more, of the rows that belong to none.
struct SequenceEntry {
  std::int32_t q_begin;  // in packed tensors; else 0
  std::int32_t queries;
  std::int32_t k_begin;
  std::int32_t keys;
  std::int32_t first_row;   // rows of the sequences before it
  std::int32_t rows;        // ceil(queries / 256)
  std::int32_t first_tile;  // dS tiles of one query head, of the sequences before it
  std::int32_t tiles;       // of one query head
  std::int32_t first_key;   // packed: key tiles of the sequences before it

  friend bool operator==(const SequenceEntry&, const SequenceEntry&) = default;
};

// One unit: its first tile among those of one query head, and the key tiles that it sees.
struct UnitEntry {
  std::int32_t first_tile;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t unused;

  friend bool operator==(const UnitEntry&, const UnitEntry&) = default;
};

struct TileRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  OCTET_HOST_DEVICE constexpr std::int32_t count() const { return end - begin; }
  friend bool operator==(const TileRange&, const TileRange&) = default;
};

// The key tiles that unit `unit` sees, and the units that see key tile `tile`: the same pairs.
OCTET_HOST_DEVICE constexpr TileRange key_tiles_of_unit(const SequenceMask& mask,
                                                        std::int32_t unit) {
  const std::int64_t first = std::int64_t{unit} * kTile;
  if (first >= mask.queries) return {};
  const std::int64_t last = first + kTile < mask.queries ? first + kTile - 1 : mask.queries - 1;
  const BlockRange range = mask.key_blocks(first, last, kTile);
  return {range.begin, range.end};
}
OCTET_HOST_DEVICE constexpr TileRange units_of_key_tile(const SequenceMask& mask,
                                                        std::int32_t tile) {
  const std::int64_t first = std::int64_t{tile} * kTile;
  if (first >= mask.keys) return {};
  const std::int64_t last = first + kTile < mask.keys ? first + kTile - 1 : mask.keys - 1;
  const BlockRange range = mask.query_blocks(first, last, kTile);
  return {range.begin, range.end};
}

// Rows and key tiles of a sequence.
OCTET_HOST_DEVICE constexpr std::int32_t rows_of(std::int64_t queries) {
  return static_cast<std::int32_t>((queries + kRow - 1) / kRow);
}
OCTET_HOST_DEVICE constexpr std::int32_t key_tiles_of(std::int64_t keys) {
  return static_cast<std::int32_t>((keys + kTile - 1) / kTile);
}

// A range of kv heads and of the rows of each, in the order of tiles.
struct Chunk {
  std::int32_t first_head = 0;
  std::int32_t heads = 0;
  std::int32_t first_row = 0;  // of the group rows
  std::int32_t end_row = 0;
  // Where sums are handed on: the first of the kv heads whose sums are kept side by side, and how many chunks have had
  // the place of this one's sums before.
  std::int32_t sums_head = 0;
  std::int32_t turn = 0;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// A chunk, and the blocks that it has.
struct ChunkWork {
  Chunk chunk;
  std::int32_t first_tile;      // of the chunk, counted over the sequences of one kv head
  std::int32_t first_sequence;  // dense: of the chunk
  std::int32_t sequences;
  std::int32_t first_key;  // packed: of its key tiles, in the list of all
  std::int32_t key_blocks;
  std::int32_t dq_blocks;
};

// The rows of query head `head` of a group that lie in the chunk, counted from the sequence's first.
OCTET_HOST_DEVICE constexpr TileRange rows_in_chunk(const SequenceEntry& sequence,
                                                    std::int32_t group, std::int32_t head,
                                                    const Chunk& chunk) {
  const std::int32_t first = group * sequence.first_row + head * sequence.rows;
  const std::int32_t begin = chunk.first_row - first, end = chunk.end_row - first;
  return {begin < 0               ? 0
          : begin > sequence.rows ? sequence.rows
                                  : begin,
          end < 0               ? 0
          : end > sequence.rows ? sequence.rows
                                : end};
}

// What a kv head of a sequence has to do in a chunk.
struct Share {
  bool any = false;  // something, if only to write zeros
  bool begins =
      false;          // its first rows are in the chunk; else sums of the chunk before are taken up
  bool ends = false;  // its last rows are in the chunk; else its sums are left for the next
};
OCTET_HOST_DEVICE constexpr Share share_of(const SequenceEntry& sequence, std::int32_t group,
                                           const Chunk& chunk) {
  const std::int32_t begin = group * sequence.first_row, end = begin + group * sequence.rows;
  if (begin == end) return {true, true, true};
  return {begin < chunk.end_row && end > chunk.first_row, begin >= chunk.first_row,
          end <= chunk.end_row};
}

// The first tile of a query head of a group, counted over the sequences of one kv head.
OCTET_HOST_DEVICE constexpr std::int32_t first_tile_of(const SequenceEntry& sequence,
                                                       std::int32_t group, std::int32_t head) {
  return group * sequence.first_tile + head * sequence.tiles;
}

}  // namespace octet::attention
