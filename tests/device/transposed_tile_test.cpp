// The quantiser's transposed tile in shared memory: every element has one place, and accesses have
// no bank conflicts.
#include "ops/quantize/cuda_sm90_tile_layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace octet::sm90 {
namespace {

constexpr int kSlots = kTile / kPatch;

// The byte offset of the 8 rows of `slot` in column `col`.
int address(int col, int slot) { return col * kTile + slot_of_rows(col, slot) * kPatch; }

TEST(TransposedTile, ExchangesTheSlotsOfAColumnAmongThemselves) {
  for (int col = 0; col < kTile; ++col) {
    std::set<int> slots;
    for (int slot = 0; slot < kSlots; ++slot) slots.insert(slot_of_rows(col, slot));
    EXPECT_EQ(slots.size(), static_cast<std::size_t>(kSlots)) << "column " << col;
    EXPECT_EQ(*slots.begin(), 0);
    EXPECT_EQ(*slots.rbegin(), kSlots - 1);
  }
}

// Lanes with `width` bytes each access memory in groups that fill the 32 banks once.
template <class Address>
void expect_no_conflict(int first_thread, int width, const Address& address_of_thread) {
  const int lanes = 128 / width;
  std::set<int> banks;
  for (int lane = 0; lane < lanes; ++lane) {
    const int begin = address_of_thread(first_thread + lane);
    EXPECT_EQ(begin % width, 0);
    for (int word = 0; word < width / 4; ++word) banks.insert((begin / 4 + word) % 32);
  }
  EXPECT_EQ(banks.size(), 32u) << "threads from " << first_thread;
}

TEST(TransposedTile, IsWrittenWithoutBankConflicts) {
  for (int j = 0; j < kPatch; ++j) {
    for (int half_warp = 0; half_warp < kQuantizeThreads; half_warp += 16) {
      expect_no_conflict(half_warp, 8, [&](int thread) {
        return address(thread % 16 * kPatch + j, thread / 16);  // as write_inside writes
      });
    }
  }
}

TEST(TransposedTile, IsReadWithoutBankConflicts) {
  for (int pass = 0; pass < 4; ++pass) {
    for (int quarter_warp = 0; quarter_warp < kQuantizeThreads; quarter_warp += 8) {
      expect_no_conflict(quarter_warp, 16, [&](int thread) {
        const int col = pass * 32 + thread / 8;  // as write_transposed reads
        return col * kTile + slot_of_chunk(col, thread % 8) * kPatch;
      });
    }
  }
}

TEST(TransposedTile, ReadsBackTheRowsInOrder) {
  std::vector<int> tile(kTile * kTile, -1);  // (column, position) -> row
  for (int thread = 0; thread < kQuantizeThreads; ++thread) {
    for (int j = 0; j < kPatch; ++j) {
      const int col = thread % 16 * kPatch + j;
      const int slot = thread / 16;
      for (int i = 0; i < kPatch; ++i) {
        int& place = tile[static_cast<std::size_t>(address(col, slot) + i)];
        ASSERT_EQ(place, -1) << "written twice";
        place = slot * kPatch + i;
      }
    }
  }
  for (int col = 0; col < kTile; ++col) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      const int pair = col * kTile + slot_of_chunk(col, chunk) * kPatch;
      for (int i = 0; i < 16; ++i) {
        const int at = pair + (has_swapped_slots(col) ? (i + 8) % 16 : i);
        ASSERT_EQ(tile[static_cast<std::size_t>(at)], chunk * 16 + i) << "column " << col;
      }
    }
  }
}

}  // namespace
}  // namespace octet::sm90
