// Which lane ends up with which sum: the steps of sums_of_lanes (device/rows/tree_sum.cuh), on the
// host.
#include "device/rows/lane_sums.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace octet::sm90 {
namespace {

constexpr int kLanes = 32;
using Lanes = std::array<std::vector<int>, kLanes>;  // what each lane still has

// A lane sends half of its values to the lane `step` away, and adds what it receives to those it
// keeps.
Lanes exchanged(const Lanes& before, int step) {
  Lanes after;
  const std::size_t half = before[0].size() / 2;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto own = static_cast<std::size_t>(lane);
    const auto other = static_cast<std::size_t>(lane ^ step);
    const std::size_t first = (lane & step) != 0 ? half : 0;
    for (std::size_t i = first; i < first + half; ++i) {
      after[own].push_back(before[own][i] + before[other][i]);
    }
  }
  return after;
}

Lanes added(const Lanes& before, int step) {
  Lanes after = before;
  for (int lane = 0; lane < kLanes; ++lane) {
    after[static_cast<std::size_t>(lane)][0] += before[static_cast<std::size_t>(lane ^ step)][0];
  }
  return after;
}

class LaneSums : public ::testing::TestWithParam<int> {};

TEST_P(LaneSums, EveryLaneHasTheSumOfItsValue) {
  const int count = GetParam();
  Lanes lanes;
  std::vector<int> sums(static_cast<std::size_t>(count));
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int value = 0; value < count; ++value) {
      const int term = 1000 * value * value + 7 * lane + value;
      lanes[static_cast<std::size_t>(lane)].push_back(term);
      sums[static_cast<std::size_t>(value)] += term;
    }
  }
  int step = 1;
  for (; lanes[0].size() > 1; step *= 2) lanes = exchanged(lanes, step);
  for (; step < kLanes; step *= 2) lanes = added(lanes, step);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int value = value_of_lane(lane, count);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, count);
    EXPECT_EQ(lanes[static_cast<std::size_t>(lane)][0], sums[static_cast<std::size_t>(value)])
        << "lane " << lane << " of " << count << " values";
  }
}

TEST_P(LaneSums, TheFirstLanesHaveAllOfThem) {
  const int count = GetParam();
  std::vector<int> seen(static_cast<std::size_t>(count));
  for (int lane = 0; lane < count; ++lane) {
    ++seen[static_cast<std::size_t>(value_of_lane(lane, count))];
  }
  EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(count), 1));
}

INSTANTIATE_TEST_SUITE_P(Counts, LaneSums, ::testing::Values(1, 2, 4, 8));

}  // namespace
}  // namespace octet::sm90
