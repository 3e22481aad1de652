// How the device cuts packed sequences into chunks, since the host does not know their lengths. Host and device.
//
// The group rows of a kv head are cut into parts of about as many tiles of dS each. A part has a range of rows, and
// the keys of the sequences that these belong to: a sequence that is cut is in two parts or more.
#pragma once

#include "ops/attention/sm90/backward/schedule.hpp"
#include "ops/attention/sm90/backward/tables.hpp"

namespace octet::attention {

// Buffers for the sums of cut sequences: a chunk may take up those of one sequence and leave those of another, and the
// chunk before it may not have taken up its own yet.
inline constexpr int kPackedSums = 3;

// What the host decides: it knows bounds only.
struct PartsPlan {
  std::int32_t heads;        // kv heads of a chunk
  std::int32_t turns;        // groups of heads that take turns
  std::int32_t room;         // tiles of a kv head in a chunk
  std::int32_t largest_row;  // tiles that a row has at most
  std::int32_t wanted;       // parts, if they have enough key blocks
  std::int32_t blocks;       // that are enough
  std::int32_t bound;        // parts, at most
};

// For so many tiles and key tiles of a kv head.
OCTET_HOST_DEVICE constexpr std::int32_t count_parts(const PartsPlan& plan, std::int64_t tiles,
                                                     std::int64_t key_tiles) {
  if (tiles == 0) return 1;
  const std::int64_t enough = key_tiles * plan.heads / plan.blocks;
  std::int64_t count = plan.wanted < enough ? plan.wanted : enough;
  if (count < 1) count = 1;
  if (tiles > plan.room) {
    const std::int64_t least = plan.room - plan.largest_row;
    const std::int64_t needed = (tiles + least - 1) / least;
    if (needed > count) count = needed;
  }
  return static_cast<std::int32_t>(count < plan.bound ? count : plan.bound);
}

// The first of `count` indices for which `holds`, or `count`. It holds for all behind the first.
template <class Holds>
OCTET_HOST_DEVICE constexpr std::int32_t first_that(std::int32_t count, const Holds& holds) {
  std::int32_t begin = 0;
  while (count > 0) {
    const std::int32_t half = count / 2;
    if (holds(begin + half)) {
      count = half;
    } else {
      begin += half + 1;
      count -= half + 1;
    }
  }
  return begin;
}

// The sequences of a packed tensor, with one more of the rows behind the last.
struct PackedTables {
  const SequenceEntry* sequences;
  std::int32_t count;
  const UnitEntry* units;
  std::int32_t group;  // query heads of a kv head

  OCTET_HOST_DEVICE constexpr std::int32_t row_begin(std::int32_t sequence) const {
    return group * sequences[sequence].first_row;
  }
  OCTET_HOST_DEVICE constexpr std::int32_t row_end(std::int32_t sequence) const {
    return group * (sequences[sequence].first_row + sequences[sequence].rows);
  }
  OCTET_HOST_DEVICE constexpr std::int64_t tile_end(std::int32_t sequence) const {
    return std::int64_t{group} * (sequences[sequence].first_tile + sequences[sequence].tiles);
  }
};

// Where a part begins: group row, the tiles before it, and the first key tile in the list of all.
struct PartBegin {
  std::int32_t row = 0;
  std::int32_t tile = 0;
  std::int32_t key = 0;
  std::int32_t before_key = 0;  // the key tile behind the last of the part before

  friend bool operator==(const PartBegin&, const PartBegin&) = default;
};

// The first row with at least `tiles` tiles before it, of which there are as many, and more than none.
OCTET_HOST_DEVICE constexpr PartBegin part_begin(const PackedTables& tables, std::int64_t tiles) {
  const std::int32_t sequence =
      first_that(tables.count, [&](std::int32_t i) { return tables.tile_end(i) >= tiles; });
  const SequenceEntry& entry = tables.sequences[sequence];
  const std::int64_t before = std::int64_t{tables.group} * entry.first_tile;
  const auto head = static_cast<std::int32_t>((tiles - before - 1) / entry.tiles);
  const std::int64_t in_head = tiles - before - std::int64_t{head} * entry.tiles;
  const auto tiles_before = [&](std::int32_t row) {
    return row == entry.rows
               ? entry.tiles
               : tables.units[(entry.first_row + row) * kRowUnits].first_tile - entry.first_tile;
  };
  const std::int32_t row = 1 + first_that(entry.rows - 1, [&](std::int32_t i) {
                             return tiles_before(i + 1) >= in_head;
                           });
  PartBegin begin;
  begin.row = tables.group * entry.first_row + head * entry.rows + row;
  begin.tile =
      static_cast<std::int32_t>(before + std::int64_t{head} * entry.tiles + tiles_before(row));
  // Sequences without rows belong to the part in which they would begin.
  const std::int32_t next =
      first_that(tables.count, [&](std::int32_t i) { return tables.row_begin(i) >= begin.row; });
  const bool is_cut = tables.row_end(next - 1) > begin.row;
  const SequenceEntry& last = tables.sequences[next - 1];
  begin.before_key = last.first_key + key_tiles_of(last.keys);
  begin.key = is_cut ? last.first_key : begin.before_key;
  return begin;
}

// Chunk `number` of a launch whose kv heads are cut into `parts` parts.
struct PartOfChunk {
  std::int32_t part;
  std::int32_t first_head;
  std::int32_t sums_head;
  std::int32_t turn;
};
OCTET_HOST_DEVICE constexpr PartOfChunk part_of_chunk(const PartsPlan& plan, std::int32_t parts,
                                                      std::int32_t number) {
  const std::int32_t turn = number / plan.turns, round = turn / parts;
  const std::int32_t sums_head = round * plan.turns * plan.heads;
  return {turn - round * parts, sums_head + number % plan.turns * plan.heads, sums_head, turn};
}

}  // namespace octet::attention
