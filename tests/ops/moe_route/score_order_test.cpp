// The keys of scores, and the cells between lanes and memory.
#include "ops/moe_route/score_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace octet {
namespace {

bool is_larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return a > b;
}

TEST(ScoreKeys, OrderLikeScores) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores{0,
                            -0.0f,
                            1,
                            -1,
                            1e-45f,
                            -1e-45f,
                            3e38f,
                            -3e38f,
                            kInfinity,
                            -kInfinity,
                            NAN,
                            -NAN,
                            f32_from_bits(0x7F800001u)};
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    scores.push_back(f32_from_bits(static_cast<std::uint32_t>(random())));
  }
  for (const float a : scores) {
    EXPECT_GT(score_key(a), 0u) << a;
    const float back = score_of_key(score_key(a));
    EXPECT_TRUE(std::isnan(a) ? std::isnan(back) : back == a) << a;
    for (const float b : scores) {
      ASSERT_EQ(score_key(a) > score_key(b), is_larger(a, b)) << a << " and " << b;
    }
  }
}

// Neither 32 neighbours nor the same expert of every lane meet in one of the 32 banks.
TEST(ScoreCells, AreInDifferentBanks) {
  for (const int per_lane : {2, 8, 32}) {
    for (int step = 0; step < per_lane; ++step) {
      std::set<int> neighbours, strided;
      for (int lane = 0; lane < 32; ++lane) {
        neighbours.insert(score_cell(step * 32 + lane) % 32);
        strided.insert(score_cell(lane * per_lane + step) % 32);
      }
      EXPECT_EQ(neighbours.size(), 32u);
      EXPECT_EQ(strided.size(), 32u) << per_lane;
    }
    EXPECT_LT(score_cell(32 * per_lane - 1), score_cells(per_lane));
  }
}

}  // namespace
}  // namespace octet
