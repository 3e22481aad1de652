// The arithmetic of a table that is made by all groups at once, against the table that is made one
// group after the other.
#include "ops/group_table/case.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

constexpr GroupSizes kKinds[] = {GroupSizes::sizes, GroupSizes::ends, GroupSizes::offsets};

// Joins numbers as a tree, halves first, as threads of a block may.
std::uint32_t join_tree(GroupSizes given, std::span<const std::uint32_t> numbers,
                        std::uint32_t rows) {
  if (numbers.size() == 1) return numbers[0];
  const std::size_t half = numbers.size() / 2;
  return join_numbers(given, join_tree(given, numbers.first(half), rows),
                      join_tree(given, numbers.subspan(half), rows), rows);
}

TEST(GroupScan, JoinsToTheClampedEndsInAnyOrder) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t rows =
        i % 5 == 0 ? kMaxGroupedRows : 1 + static_cast<std::int64_t>(random() % 3000);
    const Numbers numbers = wild_numbers(1 + random() % 30, rows, random);
    for (const GroupSizes given : kKinds) {
      std::int64_t end = 0;
      std::vector<std::uint32_t> scanned;
      for (const std::int64_t number : numbers) {
        end = group_end(given, end, number, rows).row;
        scanned.push_back(scanned_number(number, rows));
        ASSERT_EQ(join_tree(given, scanned, static_cast<std::uint32_t>(rows)), end)
            << testing::PrintToString(numbers) << " in " << rows << " rows";
      }
    }
  }
}

TEST(GroupScan, FindsTheTilesOfTheTable) {
  for (const Case& given : cases()) {
    SCOPED_TRACE(testing::PrintToString(given.sizes));
    const auto groups = static_cast<int>(given.sizes.size());
    const GroupTableLayout layout{groups, given.rows};
    const Tensor table(Dtype::i32, {layout.words()});
    run(plan_group_table({groups, given.rows, GroupSizes::sizes, Dtype::i64}),
        {tensor_of(given.sizes, Dtype::i64), table});
    const auto* words = static_cast<const std::int32_t*>(table.data());
    const auto* head = reinterpret_cast<const GroupTableHead*>(words);
    const std::int32_t* first_row = words + layout.first_row();
    for (const int tile_rows : {128, 256}) {
      std::vector<std::uint32_t> first_tile{0};
      for (const std::int64_t size : given.sizes) {
        first_tile.push_back(first_tile.back() +
                             static_cast<std::uint32_t>((size + tile_rows - 1) / tile_rows));
      }
      const auto* tiles = reinterpret_cast<const GroupTile*>(
          words + (tile_rows == 128 ? layout.tiles_128() : layout.tiles_256()));
      const std::int32_t count = tile_rows == 128 ? head->tiles_128 : head->tiles_256;
      for (std::int32_t i = 0; i < count; ++i) {
        const auto index = static_cast<std::uint32_t>(i);
        const bool tail = index >= first_tile.back();
        const int group = tail ? -1 : group_of_tile(first_tile.data(), groups, index);
        const int at = tail ? groups : group;
        const auto begin = static_cast<std::uint32_t>(first_row[at]);
        const auto end = static_cast<std::uint32_t>(tail ? given.rows : first_row[at + 1]);
        const GroupTile tile =
            tile_of_group(group, begin, end, first_tile[static_cast<std::size_t>(at)], index,
                          static_cast<std::uint32_t>(tile_rows));
        ASSERT_EQ(tile.group, tiles[i].group);
        ASSERT_EQ(tile.band_row, tiles[i].band_row);
        ASSERT_EQ(tile.end_row, tiles[i].end_row);
        ASSERT_EQ(tile.band, tiles[i].band);
      }
    }
  }
}

TEST(GroupScan, KeysOrderGroupsByLength) {
  for (const Case& given : cases()) {
    const auto groups = static_cast<int>(given.sizes.size());
    const GroupTableLayout layout{groups, given.rows};
    const Tensor table(Dtype::i32, {layout.words()});
    run(plan_group_table({groups, given.rows, GroupSizes::sizes, Dtype::i64}),
        {tensor_of(given.sizes, Dtype::i64), table});
    const auto* order = reinterpret_cast<const GroupOrder*>(
        static_cast<const std::int32_t*>(table.data()) + layout.order());
    for (int i = 1; i < groups; ++i) {
      const auto key = [&](int place) {
        return order_key(static_cast<std::uint32_t>(order[place].blocks), order[place].group);
      };
      ASSERT_GT(key(i - 1), key(i));
    }
  }
}

// The largest table: one group has all of 2^30 rows.
TEST(GroupScan, ReachesTheLastRow) {
  constexpr std::uint32_t kTiles = 1u << 23;
  const GroupTile last = tile_of_group(7, 0, 1u << 30, 0, kTiles - 1, 128);
  EXPECT_EQ(last.row(static_cast<std::int32_t>(kTiles - 1), 128), (std::int64_t{1} << 30) - 128);
  EXPECT_EQ(last.band_height(), 16);
  EXPECT_GT(order_key(kTiles, 1023), order_key(kTiles - 1, 0));
}

}  // namespace
}  // namespace octet
