// How the Hopper kernels cut rows: every unit has one thread, and few threads are idle.
#include "ops/moe_rows/row_blocks.hpp"
#include "ops/moe_rows/sm90_steps.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace octet {
namespace {

TEST(RowBlocks, HaveEveryUnitOnce) {
  std::vector<int> lengths{16384, 131072, 1 << 20};
  for (int units = 1; units < 3000; units += units < 600 ? 1 : 37) lengths.push_back(units);
  for (const int units : lengths) {
    for (const int per_thread : {1, 2, 8}) {
      const RowBlocks blocks(units, per_thread);
      SCOPED_TRACE(testing::Message() << units << " units, " << per_thread << " per thread");
      ASSERT_EQ(blocks.threads % 32, 0);
      ASSERT_LE(blocks.threads, RowBlocks::kMaxThreads);
      std::vector<int> visits(static_cast<std::size_t>(units));
      for (int chunk = 0; chunk < blocks.chunks; ++chunk) {
        for (int index = 0; index < per_thread; ++index) {
          for (int thread = 0; thread < blocks.threads; ++thread) {
            const int unit = blocks.unit(chunk, index, thread);
            if (unit < units) ++visits[static_cast<std::size_t>(unit)];
          }
        }
      }
      ASSERT_EQ(visits, std::vector<int>(visits.size(), 1));
    }
  }
}

TEST(RowBlocks, FitTheRowsOfModels) {
  // Hidden sizes in eights, two per thread: no thread of these is idle.
  for (const int cols : {2048, 4096, 5120, 7168, 8192}) {
    const RowBlocks blocks(cols / 8, 2);
    EXPECT_EQ(blocks.chunks * blocks.threads * 2, cols / 8) << cols;
  }
}

TEST(RowBlocks, LimitsOfTheKernelsAreRefused) {
  EXPECT_EQ(refuse_sm90_rows(8192, 8, 65536, 7168), "");
  EXPECT_EQ(refuse_sm90_rows(1 << 27, 8, 1 << 30, 1 << 14), "");
  EXPECT_EQ(refuse_sm90_rows(1, 1, 1, (1 << 20) + 1), "more than 2^20 columns");
  EXPECT_EQ(refuse_sm90_rows(1 << 30, 1, 1, 8193), "more than 2^31 - 1 blocks");
}

}  // namespace
}  // namespace octet
