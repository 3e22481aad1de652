// The roles of the blocks of rms_norm to FP8: all work is done exactly once, and no block waits for
// a later one.
#include "ops/rms_norm/cuda_sm90_tile_roles.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace octet::sm90 {
namespace {

class RmsNormRoles : public ::testing::TestWithParam<RmsNormBlocks> {};

TEST_P(RmsNormRoles, AllWorkIsDoneOnceAndRstdBeforeItsTiles) {
  const RmsNormBlocks& blocks = GetParam();
  std::map<std::pair<unsigned, unsigned>, unsigned> rstd;  // (band, index) to block
  std::map<std::pair<unsigned, unsigned>, unsigned> tiles;
  std::map<unsigned, unsigned> last_rstd;  // by band
  for (unsigned block = 0; block < blocks.count(); ++block) {
    const RmsNormRole role = role_of(blocks, block);
    if (role.idle) continue;
    ASSERT_LT(role.band, blocks.bands);
    ASSERT_LT(role.index, role.computes_rstd ? blocks.rstd_blocks : blocks.tiles);
    auto& done = role.computes_rstd ? rstd : tiles;
    EXPECT_TRUE(done.emplace(std::pair(role.band, role.index), block).second) << "block " << block;
    if (role.computes_rstd) last_rstd[role.band] = block;
  }
  EXPECT_EQ(rstd.size(), blocks.bands * blocks.rstd_blocks);
  EXPECT_EQ(tiles.size(), blocks.bands * blocks.tiles);
  for (const auto& [tile, block] : tiles) EXPECT_GT(block, last_rstd[tile.first]);
}

// 4096, 8192, 5120, 128 and 16384 columns; few bands, one band.
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormRoles,
                         ::testing::Values(RmsNormBlocks{32, 32, 128, 8},
                                           RmsNormBlocks{64, 64, 64, 4},
                                           RmsNormBlocks{64, 40, 10, 6}, RmsNormBlocks{16, 1, 5, 5},
                                           RmsNormBlocks{128, 128, 3, 2},
                                           RmsNormBlocks{16, 33, 4, 1},
                                           RmsNormBlocks{16, 8, 1, 1}));

}  // namespace
}  // namespace octet::sm90
