// The order of the blocks of the backward grid: every block once, and none that waits for one behind it.
#include "ops/attention/sm90/backward/schedule.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace octet::attention {
namespace {

struct Blocks {
  std::int32_t keys;
  std::int32_t dq;
};

std::vector<BlockTask> tasks_of(const std::vector<Blocks>& chunks) {
  const auto count = static_cast<std::int32_t>(chunks.size());
  const auto keys_of = [&](std::int32_t chunk) {
    return chunk < count ? chunks[static_cast<std::size_t>(chunk)].keys : 0;
  };
  const auto dq_of = [&](std::int32_t chunk) {
    return chunk >= 0 ? chunks[static_cast<std::size_t>(chunk)].dq : 0;
  };
  std::vector<std::int32_t> ends;
  for (std::int32_t segment = 0; segment < count + kLag; ++segment) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + keys_of(segment) + dq_of(segment - kLag));
  }
  std::vector<BlockTask> tasks;
  for (std::int32_t block = 0; block < ends.back(); ++block) {
    const std::int32_t segment = segment_of(ends.data(), count + kLag, block);
    const std::int32_t begin = segment == 0 ? 0 : ends[static_cast<std::size_t>(segment) - 1];
    EXPECT_GE(block, begin);
    EXPECT_LT(block, ends[static_cast<std::size_t>(segment)]);
    tasks.push_back(
        task_in_segment(segment, keys_of(segment), dq_of(segment - kLag), block - begin));
  }
  return tasks;
}

const std::vector<std::vector<Blocks>> kGrids{
    {{1, 1}},
    {{0, 5}},
    {{5, 0}},
    {{128, 64}, {128, 64}, {128, 64}, {128, 64}, {64, 32}},
    {{128, 320}, {0, 0}, {128, 320}, {3, 1000}, {1000, 3}, {128, 320}},
};

TEST(AttentionBackwardSchedule, EveryBlockOfEveryChunkIsRunOnce) {
  for (const std::vector<Blocks>& chunks : kGrids) {
    std::vector<std::set<std::int32_t>> keys(chunks.size()), dq(chunks.size());
    for (const BlockTask& task : tasks_of(chunks)) {
      auto& seen = (task.is_dq ? dq : keys)[static_cast<std::size_t>(task.chunk)];
      EXPECT_EQ(static_cast<std::int32_t>(seen.size()), task.index);  // in order
      seen.insert(task.index);
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_EQ(static_cast<std::int32_t>(keys[i].size()), chunks[i].keys);
      EXPECT_EQ(static_cast<std::int32_t>(dq[i].size()), chunks[i].dq);
    }
  }
}

// Run one after the other, no block waits for ever.
TEST(AttentionBackwardSchedule, BlocksWaitForEarlierOnesOnly) {
  for (const std::vector<Blocks>& chunks : kGrids) {
    std::vector<Blocks> done(chunks.size(), {0, 0});
    for (const BlockTask& task : tasks_of(chunks)) {
      const auto chunk = static_cast<std::size_t>(task.chunk);
      if (task.is_dq) {
        EXPECT_EQ(done[chunk].keys, chunks[chunk].keys);
        ++done[chunk].dq;
        continue;
      }
      if (chunk >= kSlots) {
        EXPECT_EQ(done[chunk - kSlots].dq, chunks[chunk - kSlots].dq);
      }
      if (chunk > 0) {
        EXPECT_EQ(done[chunk - 1].keys, chunks[chunk - 1].keys);
      }
      ++done[chunk].keys;
    }
  }
}

TEST(AttentionBackwardSchedule, DqIsSpreadBetweenKeysThatComeLast) {
  const std::vector<BlockTask> tasks = tasks_of({{100, 50}, {100, 50}, {100, 50}});
  // The third segment: 150 blocks, dq among the first 105.
  std::int32_t run = 0;
  for (std::size_t i = 200; i < 350; ++i) {
    run = tasks[i].is_dq ? run + 1 : 0;
    EXPECT_LE(run, 1);
    if (i >= 305) {
      EXPECT_FALSE(tasks[i].is_dq);
    }
  }
}

}  // namespace
}  // namespace octet::attention
