// Which slots the blocks of the Hopper kernels take, and the rows of the experts from their counts.
#include "ops/moe_maps/slot_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace octet {
namespace {

// Runs that follow each other, whole rounds of 32 except at the end, in few blocks.
TEST(SlotBlocks, HaveEverySlotOnceInOrder) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> counts{
      0,     1,      31,     32,     33,      1023,    1024,          1025,
      65536, 131071, 131072, 131073, 1 << 20, 1 << 29, (1 << 30) - 1, 1 << 30};
  for (int i = 0; i < 200; ++i) counts.push_back(static_cast<std::int64_t>(random() % (1 << 24)));
  for (const std::int64_t count : counts) {
    const SlotBlocks slots(count);
    ASSERT_GE(slots.blocks, 1);
    ASSERT_LE(slots.blocks, SlotBlocks::kMaxBlocks) << count;
    std::int64_t next = 0;
    for (std::int32_t block = 0; block < slots.blocks; ++block) {
      for (std::int32_t warp = 0; warp < SlotBlocks::kWarps; ++warp) {
        ASSERT_EQ(slots.begin(block, warp), next) << count;
        ASSERT_GE(slots.end(block, warp), next) << count;
        next = slots.end(block, warp);
        ASSERT_TRUE(next % 32 == 0 || next == count);
      }
      ASSERT_TRUE(count == 0 || slots.end(block, 31) > slots.begin(block, 0))
          << "block " << block << " of " << count << " slots has none";
    }
    ASSERT_EQ(next, count);
  }
}

TEST(SlotBlocks, LeaveRoomForTheirCounts) {
  for (const std::int64_t groups : {1, 3, 8, 257, 1024}) {
    for (const std::int64_t count : {0, 5000, 1 << 20}) {
      const SlotBlocks slots(count);
      EXPECT_GE(bad_slots_offset(slots, groups),
                static_cast<std::size_t>(slots.blocks * groups * 4));
      EXPECT_EQ(bad_slots_offset(slots, groups) % alignof(BadSlots), 0u);
      EXPECT_EQ(maps_workspace_bytes(slots, groups) - bad_slots_offset(slots, groups),
                static_cast<std::size_t>(slots.blocks) * sizeof(BadSlots));
    }
  }
}

// Against experts that take their rows one after the other.
TEST(ExpertRows, AreThoseOfExpertsInTurn) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 300);
    const std::int64_t capacity = 1 + static_cast<std::int64_t>(random() % 100);
    std::int64_t begin = 0;
    std::uint32_t kept_before = 0;
    for (int expert = 0; expert < 10; ++expert) {
      const auto wanted = static_cast<std::int64_t>(random() % 80);
      const std::int64_t kept = std::min(wanted, capacity);
      const std::int64_t size = std::min(kept, rows - begin);
      const ExpertRows found = expert_rows(
          kept_slots(static_cast<std::uint32_t>(wanted), static_cast<std::uint32_t>(capacity)),
          kept_before, static_cast<std::uint32_t>(rows));
      ASSERT_EQ(found.kept, kept);
      ASSERT_EQ(found.begin, begin);
      ASSERT_EQ(found.size, size);
      begin += size;
      kept_before += found.kept;
    }
  }
}

}  // namespace
}  // namespace octet
