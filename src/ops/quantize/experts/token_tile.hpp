// Which rows a block of the kernels over groups takes, from the group table: up to 128 rows of one
// group, which are one token block of the transposed copy, or rows behind the last group. Host and
// device.
#pragma once

#include "device/scheduler/group_table.hpp"

#include <cstddef>

namespace octet {

struct TokenTile {
  std::int32_t row;   // the first
  std::int32_t rows;  // 1 ... 128; 0: the block has nothing to do
  bool grouped;       // false: rows behind the last group

  // Whether row `index` of the tile exists.
  OCTET_HOST_DEVICE constexpr bool has(int index) const { return index < rows; }
};

// Tiles of 128 rows that a launch has to provide for. Those behind the last group may be left out.
OCTET_HOST_DEVICE constexpr std::int64_t max_token_tiles(const GroupTableLayout& layout,
                                                         bool with_tail) {
  return with_tail ? layout.max_tiles(kTokenBlock) : layout.max_blocks();
}

// The words of the head that a kernel reads: two vectors of 16 bytes.
struct TokenTileHead {
  std::int32_t magic;
  std::int32_t groups;
  std::int32_t rows;
  std::int32_t grouped_rows;
  std::int32_t token_blocks;
  std::int32_t tiles;
  std::int32_t unused[2];
};
static_assert(sizeof(TokenTileHead) == 32);
static_assert(offsetof(GroupTableHead, rows) == offsetof(TokenTileHead, rows));
static_assert(offsetof(GroupTableHead, token_blocks) == offsetof(TokenTileHead, token_blocks));
static_assert(offsetof(GroupTableHead, tiles_128) == offsetof(TokenTileHead, tiles));

// Tile `index` of the table; `entry` is its entry, which means nothing behind the last tile. A table
// that was made for other buffers, or never, has no tiles.
OCTET_HOST_DEVICE constexpr TokenTile token_tile(const TokenTileHead& head, const GroupTile& entry,
                                                 std::int32_t index, std::int32_t groups,
                                                 std::int32_t rows) {
  // Without branches, so that a kernel has the loads of head and entry in flight together.
  const bool there = (head.magic == kGroupTableMagic) & (head.groups == groups) &
                     (head.rows == rows) & (index < head.tiles);
  const auto row = static_cast<std::int32_t>(entry.row(index, kTokenBlock));
  const std::int32_t left = entry.end_row - row;
  constexpr auto kMost = static_cast<std::int32_t>(kTokenBlock);
  return {row, there ? (left < kMost ? left : kMost) : 0, index < head.token_blocks};
}

}  // namespace octet
