// The tiles of products over groups: over random sizes every row and column of d belongs to exactly one tile,
// no tile has rows of two groups, and no entry of the table is read that is not there.
#include "device/scheduler/grouped_tiles.hpp"
#include "device/scheduler/ragged_rows.hpp"
#include "ops/group_table/problem.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace octet::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

// A table on the CPU, and its parts.
struct Table {
  GroupTableLayout layout;
  Tensor words;

  Table(const Sizes& sizes, std::int64_t rows)
      : layout{static_cast<std::int64_t>(sizes.size()), rows}, words(Dtype::i32, {layout.words()}) {
    const GroupTableProblem problem{
        .groups = layout.groups, .rows = rows, .sizes_dtype = Dtype::i64};
    run(plan_group_table(problem), {make_view(sizes.data(), Dtype::i64, {layout.groups}), words});
  }
  const std::int32_t* at(std::int64_t word) const {
    return static_cast<const std::int32_t*>(words.data()) + word;
  }
  const GroupTableHead& head() const { return *reinterpret_cast<const GroupTableHead*>(at(0)); }
  const GroupTile& tile(int tile_m, int index) const {
    const std::int64_t list = tile_m == 128 ? layout.tiles_128() : layout.tiles_256();
    return reinterpret_cast<const GroupTile*>(at(list))[index];
  }
  const GroupOrder& order(int index) const {
    return reinterpret_cast<const GroupOrder*>(at(layout.order()))[index];
  }
  std::int64_t begin(std::int64_t group) const { return *at(layout.first_row() + group); }
};

std::vector<Sizes> many_sizes() {
  std::vector<Sizes> all{{0},       {1},         {0, 0, 0},        {5000},       {127, 128, 129},
                         {0, 4097}, {300, 0, 0}, {128, 0, 256, 1}, Sizes(512, 1)};
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; ++i) {
    Sizes sizes(1 + random() % 40);
    for (std::int64_t& size : sizes) {
      size =
          random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % (i % 2 == 0 ? 200 : 3000));
    }
    all.push_back(sizes);
  }
  return all;
}

// Each tile of a grid of `blocks`, in the order of its block.
template <class Tiles, class Visit>
void visit_tiles(const Tiles& tiles, const GroupTableHead& head, int blocks, const Visit& visit) {
  const int count = tiles.count(head);
  for (int block = 0; block < blocks; ++block) {
    for (int round = 0; tiles.index(round, block, blocks) < count; ++round) {
      visit(tiles.index(round, block, blocks), round);
    }
    // Later rounds have none either: a block may stop at its first index beyond the count.
    int round = 0;
    while (tiles.index(round, block, blocks) < count) ++round;
    for (int later = round; later < round + 3; ++later) {
      ASSERT_GE(tiles.index(later, block, blocks), count);
    }
  }
}

void expect_rows_covered(const Table& table, std::int64_t rows, std::int64_t n, int tile_m,
                         int tile_n, bool zeros, int blocks) {
  RowTiles tiles;
  tiles.across = Divisor(static_cast<int>((n + tile_n - 1) / tile_n));
  tiles.tile_m = tile_m;
  tiles.tile_n = tile_n;
  tiles.slices = 7;
  tiles.zeros = zeros;
  const int across = static_cast<int>(tiles.across.value);
  std::vector<int> seen(static_cast<std::size_t>(rows * across), 0);
  visit_tiles(tiles, table.head(), blocks, [&](int index, int) {
    const int entry = tiles.entry(index);
    ASSERT_LT(entry, table.layout.max_tiles(tile_m));
    const GroupTile& found = table.tile(tile_m, entry);
    const GroupedTile tile = tiles.tile(index, found);
    ASSERT_EQ(tile.zeros != 0, found.group < 0);
    ASSERT_EQ(tile.slices, tile.zeros != 0 ? 1 : 7);
    ASSERT_EQ(tile.col % tile_n, 0);
    ASSERT_LT(tile.col, n);
    ASSERT_LT(tile.row, tile.end);
    const std::int64_t begin =
        found.group < 0 ? table.head().grouped_rows : table.begin(found.group);
    ASSERT_GE(tile.row, begin);
    ASSERT_EQ(tile.end, found.group < 0 ? rows : table.begin(found.group + 1));
    ASSERT_EQ(tile.group, std::max(found.group, 0));
    for (std::int64_t row = tile.row; row < std::min<std::int64_t>(tile.end, tile.row + tile_m);
         ++row) {
      ++seen[static_cast<std::size_t>(row * across + tile.col / tile_n)];
    }
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    const int wanted = zeros || row < table.head().grouped_rows ? 1 : 0;
    for (int col = 0; col < across; ++col) {
      ASSERT_EQ(seen[static_cast<std::size_t>(row * across + col)], wanted)
          << "row " << row << ", column of tiles " << col;
    }
  }
}

TEST(GroupedTiles, CoverEveryRowAndColumnOnceAndNoGroupTwice) {
  int seed = 0;
  for (const Sizes& sizes : many_sizes()) {
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    for (const std::int64_t rows : {std::max<std::int64_t>(sum, 1), sum + 1, sum + 2300,
                                    std::max<std::int64_t>(sum / 2, 1)}) {
      const Table table(sizes, rows);
      for (const int tile_m : {128, 256}) {
        ++seed;
        expect_rows_covered(table, rows, 1 + seed * 97 % 1500, tile_m, seed % 2 == 0 ? 128 : 256,
                            seed % 3 != 0,
                            std::array{1, 66, 132}[static_cast<std::size_t>(seed % 3)]);
      }
    }
  }
}

TEST(GroupedTiles, CoverEveryGroupsGradientOnce) {
  int seed = 0;
  for (const Sizes& sizes : many_sizes()) {
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const Table table(sizes, sum + 200);
    for (const bool zeros : {true, false}) {
      ++seed;
      const int n = 1 + seed * 331 % 2500;
      const int k = 1 + seed * 173 % 700;
      ContractionTiles tiles;
      tiles.raster = Raster((n + 255) / 256, (k + 127) / 128, 8);
      tiles.tiles = Divisor(tiles.raster.count());
      tiles.rows = n;
      tiles.zeros = zeros;
      std::map<std::array<int, 3>, int> seen;
      visit_tiles(tiles, table.head(), 1 + seed * 7 % 132, [&](int index, int) {
        ASSERT_LT(tiles.entry(index), table.layout.groups);
        const GroupOrder& found = table.order(tiles.entry(index));
        const GroupedTile tile = tiles.tile(index, found);
        ++seen[{tile.group, tile.row, tile.col}];
        ASSERT_EQ(tile.end, n);
        ASSERT_LT(tile.row, n);
        ASSERT_LT(tile.col, k);
        const std::int64_t blocks =
            (table.begin(tile.group + 1) - table.begin(tile.group) + 127) / 128;
        ASSERT_EQ(tile.zeros != 0, blocks == 0);
        ASSERT_EQ(tile.slices, std::max<std::int64_t>(blocks, 1));
        if (blocks > 0) {
          ASSERT_EQ(tile.block, *table.at(table.layout.first_block() + tile.group));
        }
        ASSERT_LE(tile.block + tile.slices, table.layout.max_blocks());
      });
      const std::int64_t groups = zeros ? table.head().groups : table.head().filled_groups;
      ASSERT_EQ(static_cast<std::int64_t>(seen.size()), groups * tiles.raster.count());
      for (const auto& [place, times] : seen) ASSERT_EQ(times, 1);
    }
  }
}

// The longest groups come first, and the block that is first in one round is last in the next.
TEST(GroupedTiles, TakeLongGroupsFirstAndTurnBackEveryRound) {
  const Table table({1, 500, 0, 130, 900}, 1600);
  ContractionTiles tiles;
  tiles.tiles = Divisor(3);
  tiles.raster = Raster(1, 3, 1);
  std::vector<int> slices;
  for (int index = 0; index < tiles.count(table.head()); ++index) {
    slices.push_back(tiles.tile(index, table.order(tiles.entry(index))).slices);
  }
  EXPECT_EQ(slices, (std::vector<int>{8, 8, 8, 4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(ContractionTiles::index(0, 1, 4), 1);
  EXPECT_EQ(ContractionTiles::index(1, 1, 4), 6);
  EXPECT_EQ(ContractionTiles::index(2, 1, 4), 9);
}

TEST(GroupedTiles, KnowATableOfOtherBuffers) {
  const Table table({3, 4}, 10);
  EXPECT_TRUE(is_table_of(table.head(), 2, 10));
  EXPECT_FALSE(is_table_of(table.head(), 2, 11));
  EXPECT_FALSE(is_table_of(table.head(), 3, 10));
  EXPECT_FALSE(is_table_of(GroupTableHead{}, 2, 10));
}

// Ragged rows, as the copy engine sees them: the address of a row modulo 2^64, and whether it is inside.
TEST(RaggedRows, HaveTheAddressOfTheirRowAndEndWithTheirGroup) {
  std::mt19937_64 random(2);
  const std::uint64_t base = 0x7F3A'1234'5670;
  for (int i = 0; i < 20000; ++i) {
    const auto pitch = static_cast<std::int64_t>(16 * (1 + random() % (1 << 16)));
    const auto end = static_cast<std::int32_t>(1 + random() % (1 << 30));
    const auto row = static_cast<std::int32_t>(
        std::max<std::int64_t>(0, end - static_cast<std::int64_t>(random() % 300)));
    const std::uint64_t y = static_cast<std::uint64_t>(ragged_row(row, end));
    const std::uint64_t outer = static_cast<std::uint64_t>(ragged_pitch(pitch));
    const std::uint64_t address =
        base + y * static_cast<std::uint64_t>(pitch) +
        static_cast<std::uint64_t>(end) * static_cast<std::uint64_t>(pitch) +
        static_cast<std::uint64_t>(kRaggedExtent) * outer;
    ASSERT_EQ(address, base + static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(pitch));
    for (std::int32_t below = 0; below < 16; ++below) {
      ASSERT_EQ(ragged_row(row, end) + below < kRaggedExtent, row + below < end);
    }
  }
}

// What the driver takes: extents to 2^32, pitches in 16 bytes and below 2^40, coordinates of 32 bits.
TEST(RaggedRows, StayWithinWhatTensorMapsTake) {
  EXPECT_LE(kMostRaggedExtent, std::int64_t{1} << 32);
  EXPECT_LT(kMaxGroupedRows, kMostRaggedExtent);
  for (const std::int64_t pitch :
       {std::int64_t{16}, std::int64_t{1} << 20, (std::int64_t{1} << 34) - 16}) {
    EXPECT_EQ(ragged_pitch(pitch) % 16, 0);
    EXPECT_GT(ragged_pitch(pitch), 0);
    EXPECT_LT(ragged_pitch(pitch), std::int64_t{1} << 40);
  }
  EXPECT_EQ(ragged_row(1 << 30, 1 << 30), kRaggedExtent);
  EXPECT_EQ(ragged_row(255 + 1, 1), kRaggedExtent + 255);
}

}  // namespace
}  // namespace octet::testing
