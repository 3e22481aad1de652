// The words of a group table, host and device: a head, the first row and the first token block of
// every group, the groups by length, and the row tiles of 128 and of 256 rows.
//
//   head                 16 words
//   first_row            groups + 1
//   first_block          groups + 1: blocks of 128 rows, each group beginning a new one
//   order                groups x 4: {group, first block, blocks, 0}, longest first, ties by group
//   tiles of 128 rows    4 each; those of groups are also the list of token blocks
//   tiles of 256 rows    4 each
//
// Every part starts on a 16-byte boundary. A tile never has rows of two groups. The rows behind the
// last group are tiles of group -1. A band is a run of up to 2048 rows of one group: products visit
// its tiles column after column, so that they share operands in the L2 cache.
#pragma once

#include "core/numeric.hpp"

#include <octet/ops/group_table.hpp>

#include <cstdint>

namespace octet {

inline constexpr std::int64_t kTokenBlock = 128;  // rows
inline constexpr std::int64_t kBandRows = 2048;
inline constexpr std::int32_t kGroupTableMagic = 0x6F637467;

// What is wrong with the size, end or offset of a group.
enum class GroupError : std::int32_t {
  none = 0,
  negative = 1,
  falls = 2,
  beyond_rows = 3,
  start = 4
};

struct GroupTableHead {
  std::int32_t magic;
  std::int32_t groups;
  std::int32_t rows;
  std::int32_t grouped_rows;
  std::int32_t token_blocks;
  std::int32_t tiles_128;  // with those behind the last group
  std::int32_t tiles_256;
  std::int32_t filled_groups;
  std::int64_t error_given;  // the size, end or offset that was clamped first
  std::int32_t error_group;  // and its group
  GroupError error;
  GroupSizes given;
  std::int32_t reserved[3];
};
static_assert(sizeof(GroupTableHead) == 64);

struct GroupOrder {
  std::int32_t group;
  std::int32_t first_block;
  std::int32_t blocks;
  std::int32_t reserved;
};
static_assert(sizeof(GroupOrder) == 16);

struct GroupTile {
  std::int32_t group;     // -1: rows behind the last group
  std::int32_t band_row;  // first row of the band
  std::int32_t end_row;   // of the group
  std::int32_t band;      // 32 * first tile of the band + its height in tiles

  OCTET_HOST_DEVICE constexpr std::int32_t band_tile() const { return band >> 5; }
  OCTET_HOST_DEVICE constexpr std::int32_t band_height() const { return band & 31; }
  // The first row of tile `index` of the list.
  OCTET_HOST_DEVICE constexpr std::int64_t row(std::int32_t index, std::int32_t tile_rows) const {
    return band_row + std::int64_t{index - band_tile()} * tile_rows;
  }
};
static_assert(sizeof(GroupTile) == 16);

// Where the parts of a table begin, in words.
struct GroupTableLayout {
  std::int64_t groups;
  std::int64_t rows;

  // Every group has at most one block or tile that is not full.
  OCTET_HOST_DEVICE constexpr std::int64_t max_blocks() const {
    return rows / kTokenBlock + groups;
  }
  OCTET_HOST_DEVICE constexpr std::int64_t max_tiles(std::int64_t tile_rows) const {
    return rows / tile_rows + groups + 1;  // and one behind the last group
  }
  OCTET_HOST_DEVICE constexpr std::int64_t first_row() const { return 16; }
  OCTET_HOST_DEVICE constexpr std::int64_t first_block() const { return first_row() + offsets(); }
  OCTET_HOST_DEVICE constexpr std::int64_t order() const { return first_block() + offsets(); }
  OCTET_HOST_DEVICE constexpr std::int64_t tiles_128() const { return order() + 4 * groups; }
  OCTET_HOST_DEVICE constexpr std::int64_t tiles_256() const {
    return tiles_128() + 4 * max_tiles(128);
  }
  OCTET_HOST_DEVICE constexpr std::int64_t words() const {
    return tiles_256() + 4 * max_tiles(256);
  }

 private:
  OCTET_HOST_DEVICE constexpr std::int64_t offsets() const { return (groups + 4) / 4 * 4; }
};

// The end of a group and what is wrong with the number given for it.
struct GroupEnd {
  std::int64_t row;
  GroupError error;
};
// `start`: the end of the group before, clamped. `value`: the size of the group, or its end.
OCTET_HOST_DEVICE constexpr GroupEnd group_end(GroupSizes given, std::int64_t start,
                                               std::int64_t value, std::int64_t rows) {
  if (given == GroupSizes::sizes) {
    if (value < 0) return {start, GroupError::negative};
    if (value > rows - start) return {rows, GroupError::beyond_rows};
    return {start + value, GroupError::none};
  }
  if (value < start) return {start, GroupError::falls};
  if (value > rows) return {rows, GroupError::beyond_rows};
  return {value, GroupError::none};
}

// The ends of the groups as a prefix scan, which every group can do at once: the ends that
// group_end() gives one after the other are these numbers, joined from the first to the last. Sums
// stop at `rows`; ends are the largest so far.
OCTET_HOST_DEVICE constexpr std::uint32_t scanned_number(std::int64_t value, std::int64_t rows) {
  return static_cast<std::uint32_t>(value < 0 ? 0 : value > rows ? rows : value);
}
OCTET_HOST_DEVICE constexpr std::uint32_t join_numbers(GroupSizes given, std::uint32_t left,
                                                       std::uint32_t right, std::uint32_t rows) {
  if (given != GroupSizes::sizes) return left > right ? left : right;
  const std::uint32_t sum = left + right;  // at most 2^31
  return sum < rows ? sum : rows;
}

// The groups by length, longest first, ties by group: a group's place in the order is the number of
// larger keys. Keys are distinct.
OCTET_HOST_DEVICE constexpr std::uint64_t order_key(std::uint32_t blocks, int group) {
  return (std::uint64_t{blocks} << 10) + static_cast<std::uint64_t>(kMaxGroups - 1 - group);
}

// The last group whose first tile is at most `tile`: the one that has it, since groups without
// tiles begin where the next one does. `tile` is less than first_tile[groups].
OCTET_HOST_DEVICE constexpr int group_of_tile(const std::uint32_t* first_tile, int groups,
                                              std::uint32_t tile) {
  int low = 0;
  int high = groups;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_tile[middle] <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Tile `index` of the list, which is one of the group's rows begin .. end - 1.
OCTET_HOST_DEVICE constexpr GroupTile tile_of_group(int group, std::uint32_t begin,
                                                    std::uint32_t end, std::uint32_t first_tile,
                                                    std::uint32_t index, std::uint32_t tile_rows) {
  const auto band_tiles = static_cast<std::uint32_t>(kBandRows) / tile_rows;
  const std::uint32_t band = (index - first_tile) / band_tiles;
  const std::uint32_t band_row = begin + band * static_cast<std::uint32_t>(kBandRows);
  const std::uint32_t left = (end - band_row + tile_rows - 1) / tile_rows;
  const std::uint32_t height = left < band_tiles ? left : band_tiles;
  return {group, static_cast<std::int32_t>(band_row), static_cast<std::int32_t>(end),
          static_cast<std::int32_t>(32 * (first_tile + band * band_tiles) + height)};
}

}  // namespace octet
