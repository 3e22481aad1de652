// The order of tiles in the persistent grid: every tile once, and neighbours share operands.
#include "device/scheduler/raster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace octet {
namespace {

void expect_every_tile_once(const Raster& raster) {
  std::vector<int> visits(static_cast<std::size_t>(raster.count()));
  for (int index = 0; index < raster.count(); ++index) {
    const TileIndex tile = raster.tile(index);
    ASSERT_TRUE(tile.m >= 0 && tile.m < raster.tiles_m && tile.n >= 0 && tile.n < raster.tiles_n)
        << raster.tiles_m << " x " << raster.tiles_n << " tiles in groups of " << raster.group_m
        << ", index " << index << ": (" << tile.m << ", " << tile.n << ")";
    ++visits[static_cast<std::size_t>(tile.m * raster.tiles_n + tile.n)];
  }
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int count) { return count == 1; }))
      << raster.tiles_m << " x " << raster.tiles_n << " tiles in groups of " << raster.group_m;
}

TEST(Divisor, GivesTheQuotient) {
  constexpr int kMost = std::numeric_limits<int>::max();
  for (int value = 1; value <= 5000; ++value) {
    const Divisor divisor(value);
    for (const int factor : {0, 1, 2, 3, 1000, kMost / value - 1, kMost / value}) {
      for (const std::int64_t off : {-1, 0, 1}) {
        const std::int64_t number = std::int64_t{factor} * value + off;
        if (number < 0 || number > kMost) continue;
        ASSERT_EQ(divisor.quotient(static_cast<int>(number)), number / value)
            << number << " / " << value;
      }
    }
  }
  for (const int value : {kMost, kMost - 1, 1 << 30, (1 << 30) + 1}) {
    EXPECT_EQ(Divisor(value).quotient(kMost), kMost / value) << value;
    EXPECT_EQ(Divisor(value).quotient(value - 1), 0) << value;
  }
}

TEST(Raster, VisitsEveryTileExactlyOnce) {
  for (int tiles_m = 1; tiles_m <= 40; ++tiles_m) {
    for (int tiles_n = 1; tiles_n <= 24; ++tiles_n) {
      for (const int group : {1, 2, 3, 7, 8, 16, 32, 64}) {
        expect_every_tile_once(Raster(tiles_m, tiles_n, group));
      }
    }
  }
}

TEST(Raster, VisitsEveryTileOfLargeProblems) {
  expect_every_tile_once(Raster(128, 832, 8));   // 32768 x 106496 in tiles of 256x128
  expect_every_tile_once(Raster(513, 417, 16));  // ragged in both directions
  expect_every_tile_once(Raster(1, 4096, 32));
  expect_every_tile_once(Raster(4099, 1, 8));
}

// The L2 cache relies on this: a run of tiles as long as the grid touches few rows and columns.
TEST(Raster, KeepsTilesInFlightWithinOneGroupOfRows) {
  const Raster raster(64, 64, 8);
  for (int first = 0; first + 64 <= raster.count(); first += 64) {
    int lowest = raster.tiles_m, highest = 0, leftmost = raster.tiles_n, rightmost = 0;
    for (int index = first; index < first + 64; ++index) {
      const TileIndex tile = raster.tile(index);
      lowest = std::min(lowest, tile.m);
      highest = std::max(highest, tile.m);
      leftmost = std::min(leftmost, tile.n);
      rightmost = std::max(rightmost, tile.n);
    }
    EXPECT_EQ(highest - lowest + 1, 8) << "from index " << first;
    EXPECT_EQ(rightmost - leftmost + 1, 8) << "from index " << first;
  }
}

TEST(Raster, IsKnownAtCompileTime) {
  constexpr Raster raster(5, 3, 2);
  static_assert(raster.tile(0).m == 0 && raster.tile(1).m == 1 && raster.tile(2).n == 1);
  // The last group has one row, visited column by column.
  static_assert(raster.tile(12).m == 4 && raster.tile(12).n == 0 && raster.tile(14).n == 2);
  EXPECT_EQ(raster.count(), 15);
}

}  // namespace
}  // namespace octet
