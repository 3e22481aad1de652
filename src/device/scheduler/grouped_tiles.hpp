// The tiles of products over groups, as a persistent grid visits them: block `block` of `blocks` takes one
// tile per round. A tile is found through one entry of the group table, without a search. Blocks are here
// clusters of thread blocks, and columns of tiles those of a cluster.
#pragma once

#include "device/scheduler/group_table.hpp"
#include "device/scheduler/raster.hpp"

#include <algorithm>
#include <limits>

namespace octet {

// Where a tile lies and what it is computed from.
struct GroupedTile {
  std::int32_t row;     // of d: over rows of [T, N], over the contraction of one [N, K]
  std::int32_t col;     // and its first column
  std::int32_t end;     // the row of d behind the last that is stored
  std::int32_t slices;  // of the contraction, at least one
  std::int32_t group;   // whose weights are multiplied, or whose d is written
  std::int32_t block;   // over the contraction: the token block of the first slice
  std::int32_t zeros;   // no group has it: zeros are stored, whatever its one slice gives
  std::int32_t more;    // another tile follows in this block
};
static_assert(sizeof(GroupedTile) == 32);

// Whether a table was made for these buffers.
OCTET_HOST_DEVICE constexpr bool is_table_of(const GroupTableHead& head, std::int32_t groups,
                                             std::int32_t rows) {
  return head.magic == kGroupTableMagic && head.groups == groups && head.rows == rows;
}

// Rows of tiles of 128 or 256 rows: with those behind the last group, and without, which take no time.
OCTET_HOST_DEVICE constexpr int all_tiles(const GroupTableHead& head, int tile_m) {
  return tile_m == 128 ? head.tiles_128 : head.tiles_256;
}
OCTET_HOST_DEVICE constexpr int groups_tiles(const GroupTableHead& head, int tile_m) {
  return all_tiles(head, tile_m) - (head.rows - head.grouped_rows + tile_m - 1) / tile_m;
}

// Over rows: bands of one group after the other, column after column inside a band. All tiles take the same
// time. The rows behind the last group are tiles of zeros, or none.
struct RowTiles {
  using Entry = GroupTile;
  Divisor across{1};          // columns of tiles
  std::int32_t tile_m = 128;  // 128 or 256
  std::int32_t tile_n = 128;
  std::int32_t slices = 1;
  bool zeros = true;

  OCTET_HOST_DEVICE constexpr int count(const GroupTableHead& head) const {
    const int down = zeros ? all_tiles(head, tile_m) : groups_tiles(head, tile_m);
    return down * static_cast<int>(across.value);
  }
  OCTET_HOST_DEVICE static constexpr int index(int round, int block, int blocks) {
    return round * blocks + block;
  }
  OCTET_HOST_DEVICE constexpr int entry(int index) const { return across.quotient(index); }

  OCTET_HOST_DEVICE constexpr GroupedTile tile(int index, const GroupTile& entry) const {
    const auto rest =
        static_cast<std::uint32_t>(index - entry.band_tile() * static_cast<int>(across.value));
    const auto height = static_cast<std::uint32_t>(entry.band_height());
    const std::uint32_t n = rest / height;
    const bool is_tail = entry.group < 0;
    return {entry.band_row + static_cast<int>(rest - n * height) * tile_m,
            static_cast<int>(n) * tile_n,
            entry.end_row,
            is_tail ? 1 : slices,
            is_tail ? 0 : entry.group,
            0,
            is_tail ? 1 : 0,
            0};
  }
};

// The list of tiles that a grid finishes first, where the tiles of a list all take as long: rounds times the clocks
// of a tile. Lists without clocks are not to be taken; of equals the first is.
template <int kLists>
OCTET_HOST_DEVICE constexpr int quickest_list(const std::int32_t (&counts)[kLists],
                                              const std::int32_t (&tile_clocks)[kLists],
                                              const Divisor& blocks) {
  int best = 0;
  std::int64_t best_clocks = std::numeric_limits<std::int64_t>::max();
  for (int list = 0; list < kLists; ++list) {
    const int rounds = blocks.quotient(counts[list] + static_cast<int>(blocks.value) - 1);
    const std::int64_t clocks = std::int64_t{rounds} * tile_clocks[list];
    if (tile_clocks[list] == 0 || clocks >= best_clocks) continue;
    best = list;
    best_clocks = clocks;
  }
  return best;
}

// Over the contraction: the tiles of one group's d after the other, the longest group first. Every other
// round runs backwards, so that the block with the longest tile of one round gets the shortest of the next.
// Groups without rows are tiles of zeros, or none.
struct ContractionTiles {
  using Entry = GroupOrder;
  Divisor tiles{1};  // of one d
  Raster raster;
  std::int32_t tile_m = 256;
  std::int32_t tile_n = 128;
  std::int32_t rows = 1;  // of one d
  bool zeros = true;

  OCTET_HOST_DEVICE constexpr int count(const GroupTableHead& head) const {
    return (zeros ? head.groups : head.filled_groups) * static_cast<int>(tiles.value);
  }
  OCTET_HOST_DEVICE static constexpr int index(int round, int block, int blocks) {
    return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  }
  OCTET_HOST_DEVICE constexpr int entry(int index) const { return tiles.quotient(index); }

  OCTET_HOST_DEVICE constexpr GroupedTile tile(int index, const GroupOrder& entry) const {
    const int first = tiles.quotient(index) * static_cast<int>(tiles.value);
    const TileIndex place = raster.tile(index - first);
    const bool is_empty = entry.blocks == 0;
    return {place.m * tile_m,
            place.n * tile_n,
            rows,
            is_empty ? 1 : entry.blocks,
            entry.group,
            is_empty ? 0 : entry.first_block,
            is_empty ? 1 : 0,
            0};
  }
};

}  // namespace octet
