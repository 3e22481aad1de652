// The ranges of a mask against its definition.
#include "ops/attention/mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace octet {
namespace {

bool sees(const AttentionMask& mask, std::int64_t queries, std::int64_t keys, std::int64_t i,
          std::int64_t j) {
  const std::int64_t place = i + (mask.align == MaskAlignment::bottom_right ? keys - queries : 0);
  return (mask.left < 0 || j >= place - mask.left) && (mask.right < 0 || j <= place + mask.right);
}

template <class Check>
void for_all_masks(const Check& check) {
  for (const std::int64_t queries : {0, 1, 5, 8}) {
    for (const std::int64_t keys : {0, 1, 4, 8, 13}) {
      for (const std::int64_t left : {-1, 0, 1, 3, 20}) {
        for (const std::int64_t right : {-1, 0, 2, 20}) {
          for (const auto align : {MaskAlignment::bottom_right, MaskAlignment::top_left}) {
            check(AttentionMask{left, right, align}, queries, keys);
          }
        }
      }
    }
  }
}

TEST(AttentionMask, RangesOfQueriesAndKeysAreThoseOfTheDefinition) {
  for_all_masks([](const AttentionMask& mask, std::int64_t queries, std::int64_t keys) {
    const SequenceMask sequence(mask, queries, keys);
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) {
        const IndexRange of_query = sequence.keys_of(i), of_key = sequence.queries_of(j);
        const bool wanted = sees(mask, queries, keys, i, j);
        ASSERT_EQ(j >= of_query.begin && j < of_query.end, wanted) << i << " " << j;
        ASSERT_EQ(i >= of_key.begin && i < of_key.end, wanted) << i << " " << j;
      }
    }
  });
}

TEST(AttentionMask, BlocksHaveWhatOneOfTheirRowsSeesAndKnowWhetherAllSeeAll) {
  for_all_masks([](const AttentionMask& mask, std::int64_t queries, std::int64_t keys) {
    const SequenceMask sequence(mask, queries, keys);
    for (std::int64_t first = 0; first < queries; ++first) {
      for (std::int64_t last = first; last < queries; ++last) {
        const IndexRange range = sequence.keys_of(first, last);
        for (std::int64_t j = 0; j < keys; ++j) {
          bool some = false, all = true;
          for (std::int64_t i = first; i <= last; ++i) {
            some = some || sees(mask, queries, keys, i, j);
            all = all && sees(mask, queries, keys, i, j);
          }
          // Between the windows of the first and the last query there are no gaps of interest: a
          // range may have keys that nobody sees only where windows are narrower than the block.
          if (some) {
            ASSERT_TRUE(j >= range.begin && j < range.end);
          }
          ASSERT_EQ(sequence.sees_all(first, last, j, j), all) << first << " " << last << " " << j;
        }
      }
    }
  });
}

// `some_and_all`: whether some row of the tile sees an index, and whether all do.
void check_blocks(const BlockRange& range, std::int64_t count, std::int32_t size,
                  const std::function<std::pair<bool, bool>(std::int64_t)>& some_and_all) {
  ASSERT_LE(range.begin, range.full_begin);
  ASSERT_LE(range.full_begin, range.full_end);
  ASSERT_LE(range.full_end, range.end);
  for (std::int32_t block = 0; block * size < count; ++block) {
    bool some = false, all = (block + 1) * size <= count;
    for (std::int64_t at = block * size; at < std::min<std::int64_t>((block + 1) * size, count);
         ++at) {
      const auto [one, every] = some_and_all(at);
      some = some || one;
      all = all && every;
    }
    if (some) {
      ASSERT_TRUE(block >= range.begin && block < range.end) << block;
      ASSERT_EQ(block >= range.full_begin && block < range.full_end, all) << block;
    }
  }
}

TEST(AttentionMask, BlockRangesHaveWhatIsVisibleAndKnowWhichNeedNoMask) {
  for_all_masks([](const AttentionMask& mask, std::int64_t queries, std::int64_t keys) {
    const SequenceMask sequence(mask, queries, keys);
    for (const std::int32_t size : {1, 3, 4}) {
      for (std::int64_t first = 0; first < queries; ++first) {
        const std::int64_t last = std::min(first + 3, queries - 1);
        check_blocks(sequence.key_blocks(first, last, size), keys, size, [&](std::int64_t j) {
          std::pair<bool, bool> seen{false, true};
          for (std::int64_t i = first; i <= last; ++i) {
            seen.first = seen.first || sees(mask, queries, keys, i, j);
            seen.second = seen.second && sees(mask, queries, keys, i, j);
          }
          return seen;
        });
      }
      for (std::int64_t first = 0; first < keys; ++first) {
        const std::int64_t last = std::min(first + 3, keys - 1);
        check_blocks(sequence.query_blocks(first, last, size), queries, size, [&](std::int64_t i) {
          std::pair<bool, bool> seen{false, true};
          for (std::int64_t j = first; j <= last; ++j) {
            seen.first = seen.first || sees(mask, queries, keys, i, j);
            seen.second = seen.second && sees(mask, queries, keys, i, j);
          }
          return seen;
        });
      }
    }
  });
}

}  // namespace
}  // namespace octet
