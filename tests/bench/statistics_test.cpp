#include "bench/timing/timing.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace octet::bench {
namespace {

TEST(Statistics, MedianIsTheMiddleValueWhateverTheOrder) {
  EXPECT_DOUBLE_EQ(median({5, 1, 3}), 3);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, MedianIgnoresOneWildSample) { EXPECT_DOUBLE_EQ(median({1, 1, 1, 1, 1000}), 1); }

TEST(Statistics, SpreadIsTheDistanceOfTheQuartilesOverTheMedian) {
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 5}), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(spread({2, 2, 2}), 0);
  EXPECT_DOUBLE_EQ(spread({2}), 0);
}

TEST(Statistics, GeometricMeanMultiplies) {
  EXPECT_NEAR(geometric_mean({1, 4, 16}), 4, 1e-12);
  EXPECT_TRUE(std::isnan(geometric_mean({})));
}

}  // namespace
}  // namespace octet::bench
