// The tiles of the kernels over groups: from the words of a table, every row exactly once.
#include "core/checks.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/experts/token_tile.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace octet {
namespace {

using Sizes = std::vector<std::int64_t>;

// A table and what a kernel reads of it.
class Table {
 public:
  Table(const Sizes& sizes, std::int64_t rows)
      : layout_{static_cast<std::int64_t>(sizes.size()), rows},
        words_(Dtype::i32, {layout_.words()}) {
    run(plan_group_table({.groups = layout_.groups, .rows = rows, .sizes_dtype = Dtype::i64}),
        {make_view(sizes.data(), Dtype::i64, {layout_.groups}), words_});
  }

  const GroupTableLayout& layout() const { return layout_; }
  GroupRows groups() const { return {"test", words_, layout_.groups, layout_.rows}; }
  TokenTileHead head() const {
    TokenTileHead head;
    std::memcpy(&head, words_.data(), sizeof(head));
    return head;
  }
  TokenTile tile(std::int64_t index) const { return tile(head(), index); }
  TokenTile tile(const TokenTileHead& head, std::int64_t index) const {
    GroupTile entry;
    const auto* words = static_cast<const std::int32_t*>(words_.data());
    std::memcpy(&entry, words + layout_.tiles_128() + 4 * index, sizeof(entry));
    return token_tile(head, entry, static_cast<std::int32_t>(index),
                      static_cast<std::int32_t>(layout_.groups),
                      static_cast<std::int32_t>(layout_.rows));
  }

 private:
  GroupTableLayout layout_;
  Tensor words_;
};

void expect_every_row_once(const Sizes& sizes, std::int64_t rows) {
  const Table table(sizes, rows);
  const GroupRows groups = table.groups();
  std::vector<int> covered(static_cast<std::size_t>(rows), 0);
  const std::int64_t tiles = max_token_tiles(table.layout(), true);
  ASSERT_EQ(max_token_tiles(table.layout(), false), max_token_blocks(groups.groups(), rows));
  for (std::int64_t index = 0; index < tiles; ++index) {
    const TokenTile tile = table.tile(index);
    ASSERT_GE(tile.rows, 0);
    ASSERT_LE(tile.rows, kTokenBlock);
    if (tile.rows == 0) continue;
    ASSERT_LE(tile.row + tile.rows, rows);
    ASSERT_EQ(tile.grouped, index < groups.token_blocks());
    for (int r = 0; r < kTokenBlock; ++r) {
      ASSERT_EQ(tile.has(r), r < tile.rows);
      if (tile.has(r)) ++covered[static_cast<std::size_t>(tile.row + r)];
    }
    if (!tile.grouped) {
      ASSERT_GE(tile.row, groups.grouped_rows());
      continue;
    }
    // The tile is a token block, and only the last one of a group is not full.
    ASSERT_LT(index, max_token_tiles(table.layout(), false));
    const std::int64_t group = groups.group_of(index);
    ASSERT_EQ(tile.row, groups.begin(group) + (index - groups.first_block(group)) * kTokenBlock);
    ASSERT_EQ(tile.row + tile.rows, std::min(tile.row + kTokenBlock, groups.end(group)));
  }
  for (std::size_t r = 0; r < covered.size(); ++r) ASSERT_EQ(covered[r], 1) << "row " << r;
}

TEST(TokenTile, HasEveryRowExactlyOnce) {
  const Sizes layouts[] = {{0, 1, 127, 128, 129}, {300},           {0, 0, 300, 0}, {1, 1, 1},
                           {128, 128, 256},       {2048, 2049, 1}, {5000},         {0, 0, 0}};
  for (const Sizes& sizes : layouts) {
    for (const std::int64_t tail : {0, 1, 127, 128, 2300}) {
      const std::int64_t rows = std::accumulate(sizes.begin(), sizes.end(), tail);
      if (rows > 0) expect_every_row_once(sizes, rows);
      if (HasFatalFailure()) FAIL() << "rows " << rows << ", first group of " << sizes[0];
    }
  }
}

TEST(TokenTile, HasEveryRowExactlyOnceOnRandomSizes) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Sizes sizes(1 + random() % (seed % 20 == 0 ? 1024 : 12));
    for (std::int64_t& size : sizes) {
      size = static_cast<std::int64_t>(random() % any_of({1, 3, 140, 900}, random));
    }
    // Sizes beyond the buffers are clamped when the table is made.
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const std::int64_t rows = std::max<std::int64_t>(sum + any_of({-200, 0, 0, 1, 500}, random), 1);
    expect_every_row_once(sizes, rows);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(TokenTile, FindsNoTilesInATableOfOtherBuffers) {
  const Table table({100, 200}, 400);
  const auto with = [&](std::int32_t TokenTileHead::*member, std::int32_t value) {
    TokenTileHead head = table.head();
    head.*member = value;
    return table.tile(head, 0).rows;
  };
  EXPECT_EQ(table.tile(0).rows, 100);
  EXPECT_EQ(with(&TokenTileHead::magic, 0), 0);
  EXPECT_EQ(with(&TokenTileHead::groups, 3), 0);
  EXPECT_EQ(with(&TokenTileHead::rows, 401), 0);
  EXPECT_EQ(with(&TokenTileHead::tiles, 0), 0);
}

}  // namespace
}  // namespace octet
