// Group tables: every row in exactly one tile, the same from sizes, ends and offsets, and what is
// done with sizes that do not fit.
#include "ops/group_table/case.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace octet {
namespace {

// A table on the CPU, made from numbers.
class Table {
 public:
  Table(std::int64_t groups, std::int64_t rows, const Numbers& numbers,
        GroupSizes given = GroupSizes::sizes, Dtype dtype = Dtype::i32)
      : layout_{groups, rows}, tensor_(Dtype::i32, {group_table_words(groups, rows)}) {
    std::memset(tensor_.data(), 0x5A, static_cast<std::size_t>(layout_.words()) * 4);
    const Tensor sizes = tensor_of(numbers, dtype);
    run(plan_group_table({groups, rows, given, dtype}), {sizes, tensor_});
  }

  const TensorView& view() const { return tensor_; }
  const std::int32_t* words() const { return static_cast<const std::int32_t*>(tensor_.data()); }
  const GroupTableHead& head() const { return *reinterpret_cast<const GroupTableHead*>(words()); }
  GroupRows rows() const { return {"test", tensor_, layout_.groups, layout_.rows}; }
  const GroupOrder& order(std::int64_t i) const {
    return reinterpret_cast<const GroupOrder*>(words() + layout_.order())[i];
  }
  const GroupTile& tile(int tile_rows, std::int64_t i) const {
    const std::int64_t first = tile_rows == 128 ? layout_.tiles_128() : layout_.tiles_256();
    return reinterpret_cast<const GroupTile*>(words() + first)[i];
  }
  std::int32_t tiles(int tile_rows) const {
    return tile_rows == 128 ? head().tiles_128 : head().tiles_256;
  }
  Numbers all() const { return {words(), words() + layout_.words()}; }
  std::string error() const { return read_group_table(tensor_).error; }

 private:
  GroupTableLayout layout_;
  Tensor tensor_;
};

void expect_tiles_cover_rows(const Table& table, const Case& given, int tile_rows) {
  const Numbers ends = ends_of(given.sizes);
  std::vector<int> visits(static_cast<std::size_t>(given.rows));
  for (std::int32_t i = 0; i < table.tiles(tile_rows); ++i) {
    const GroupTile& tile = table.tile(tile_rows, i);
    const std::int64_t begin = tile.row(i, tile_rows);
    ASSERT_GE(i, tile.band_tile());
    ASSERT_LT(i, tile.band_tile() + tile.band_height());
    ASSERT_LE(tile.band_height(), kBandRows / tile_rows);
    ASSERT_EQ(table.tile(tile_rows, tile.band_tile()).band, tile.band) << "a band is contiguous";
    ASSERT_LT(begin, tile.end_row) << "tile " << i << " has no rows";
    if (tile.group >= 0) {
      const auto group = static_cast<std::size_t>(tile.group);
      ASSERT_EQ(tile.end_row, ends[group]);
      ASSERT_GE(begin, ends[group] - given.sizes[group]);
    } else {
      ASSERT_EQ(tile.end_row, given.rows);
      ASSERT_GE(begin, ends.back());
    }
    for (std::int64_t row = begin; row < std::min<std::int64_t>(begin + tile_rows, tile.end_row);
         ++row) {
      ++visits[static_cast<std::size_t>(row)];
    }
  }
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
  EXPECT_LE(table.tiles(tile_rows),
            (GroupTableLayout{static_cast<std::int64_t>(given.sizes.size()), given.rows}.max_tiles(
                tile_rows)));
}

TEST(GroupTable, HasEveryRowInOneTile) {
  for (const Case& given : cases()) {
    const auto groups = static_cast<std::int64_t>(given.sizes.size());
    const Table table(groups, given.rows, given.sizes);
    SCOPED_TRACE(testing::PrintToString(given.sizes));
    expect_tiles_cover_rows(table, given, 128);
    expect_tiles_cover_rows(table, given, 256);
    EXPECT_EQ(table.error(), "");
  }
}

TEST(GroupTable, HasTheRowsAndBlocksOfEveryGroup) {
  for (const Case& given : cases()) {
    const auto groups = static_cast<std::int64_t>(given.sizes.size());
    const Table table(groups, given.rows, given.sizes);
    const GroupRows rows = table.rows();
    std::int64_t row = 0;
    std::int64_t block = 0;
    std::int64_t filled = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t size = given.sizes[static_cast<std::size_t>(g)];
      ASSERT_EQ(rows.begin(g), row);
      ASSERT_EQ(rows.rows(g), size);
      ASSERT_EQ(rows.first_block(g), block);
      // The first tiles of 128 rows are the token blocks.
      if (size > 0) {
        ASSERT_EQ(table.tile(128, block).group, g);
      }
      row += size;
      block += (size + 127) / 128;
      filled += size > 0 ? 1 : 0;
    }
    EXPECT_EQ(rows.token_blocks(), block);
    EXPECT_LE(block, max_token_blocks(groups, given.rows));
    const GroupTableReport report = read_group_table(table.view());
    EXPECT_EQ(report.groups, groups);
    EXPECT_EQ(report.rows, given.rows);
    EXPECT_EQ(report.grouped_rows, row);
    EXPECT_EQ(report.filled_groups, filled);
  }
}

TEST(GroupTable, OrdersGroupsByLength) {
  for (const Case& given : cases()) {
    const auto groups = static_cast<std::int64_t>(given.sizes.size());
    const Table table(groups, given.rows, given.sizes);
    std::vector<bool> seen(given.sizes.size());
    for (std::int64_t i = 0; i < groups; ++i) {
      const GroupOrder& entry = table.order(i);
      ASSERT_EQ(entry.blocks, table.rows().blocks(entry.group));
      ASSERT_EQ(entry.first_block, table.rows().first_block(entry.group));
      ASSERT_FALSE(seen[static_cast<std::size_t>(entry.group)]);
      seen[static_cast<std::size_t>(entry.group)] = true;
      if (i == 0) continue;
      const GroupOrder& before = table.order(i - 1);
      ASSERT_TRUE(before.blocks > entry.blocks ||
                  (before.blocks == entry.blocks && before.group < entry.group));
    }
  }
}

TEST(GroupTable, IsTheSameFromSizesEndsAndOffsets) {
  for (const Case& given : cases()) {
    const auto groups = static_cast<std::int64_t>(given.sizes.size());
    const auto without_kind = [](Numbers words) {
      words[12] = 0;  // GroupTableHead::given
      return words;
    };
    const Numbers wanted = without_kind(Table(groups, given.rows, given.sizes).all());
    for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
      for (const auto& [kind, numbers] : {std::pair{GroupSizes::sizes, given.sizes},
                                          {GroupSizes::ends, ends_of(given.sizes)},
                                          {GroupSizes::offsets, offsets_of(given.sizes)}}) {
        EXPECT_EQ(without_kind(Table(groups, given.rows, numbers, kind, dtype).all()), wanted);
      }
    }
  }
}

void expect_clamped(const std::string& error, const Numbers& wanted_ends, std::int64_t rows,
                    const Numbers& numbers, GroupSizes given, Dtype dtype = Dtype::i64) {
  const auto groups = static_cast<std::int64_t>(wanted_ends.size());
  const Table table(groups, rows, numbers, given, dtype);
  for (std::int64_t g = 0; g < groups; ++g) {
    EXPECT_EQ(table.rows().end(g), wanted_ends[static_cast<std::size_t>(g)]) << error;
  }
  EXPECT_EQ(table.error(), error);
  try {
    check_group_table(table.view());
    ADD_FAILURE() << "nothing was thrown, wanted: " << error;
  } catch (const Error& thrown) {
    EXPECT_EQ(thrown.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(thrown.what(), "group_table: " + error);
  }
}

TEST(GroupTable, ClampsWhatDoesNotFit) {
  using enum GroupSizes;
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  expect_clamped("the size of group 1 must be at least 0, got -3", {4, 4, 9}, 10, {4, -3, 5},
                 sizes);
  expect_clamped("group 1 must end within the 10 rows of the buffers, the size of group 1 is 7",
                 {4, 10, 10}, 10, {4, 7, 0}, sizes);
  expect_clamped(
      "group 0 must end within the 10 rows of the buffers, the size of group 0 is "
      "4611686018427387904",
      {10, 10, 10}, 10, {kHuge, kHuge, kHuge}, sizes);
  expect_clamped("the size of group 0 must be at least 0, got -2", {0, 10}, 10, {-2, 11}, sizes,
                 Dtype::i32);
  expect_clamped("the end of group 2 must not be less than the end of group 1, got 5", {4, 8, 8, 9},
                 10, {4, 8, 5, 9}, ends);
  expect_clamped("the end of group 0 must not be less than 0, got -1", {0, 8}, 10, {-1, 8}, ends);
  expect_clamped("group 1 must end within the 10 rows of the buffers, the end of group 1 is 11",
                 {4, 10, 10}, 10, {4, 11, 12}, ends);
  expect_clamped("offset 2 must not be less than offset 1, got 3", {4, 4, 9}, 10, {0, 4, 3, 9},
                 offsets);
  expect_clamped("offset 0 must be 0, got 2", {4, 9}, 10, {2, 4, 9}, offsets);
  expect_clamped(
      "group 1 must end within the 10 rows of the buffers, offset 2 is 4611686018427387904",
      {4, 10}, 10, {0, 4, kHuge}, offsets);
}

TEST(GroupTable, IsCheckedByItsReaders) {
  const Table table(3, 500, {100, 0, 200});
  const auto expect = [](const std::string& message, const auto& read) {
    try {
      read();
      ADD_FAILURE() << "nothing was thrown, wanted: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), message);
    }
  };
  expect("test: table is not one of 2 groups in 500 rows; it was made for 3 groups in 500 rows",
         [&] { GroupRows("test", table.view(), 2, 500); });
  Tensor raw(Dtype::i32, {group_table_words(3, 500)});
  std::memset(raw.data(), 0x7F, static_cast<std::size_t>(group_table_words(3, 500)) * 4);
  expect("test: table was not made by group_table, got i32[84]",
         [&] { GroupRows("test", raw, 3, 500); });
  expect("group_table: table was not made by group_table, got i32[84]",
         [&] { check_group_table(raw); });
  std::memcpy(raw.data(), table.words(), static_cast<std::size_t>(group_table_words(3, 500)) * 4);
  static_cast<std::int32_t*>(raw.data())[17] = 400;  // the end of the first group
  expect("test: table is not one of 3 groups in 500 rows; it was made for 3 groups in 500 rows",
         [&] { GroupRows("test", raw, 3, 500); });
}

}  // namespace
}  // namespace octet
