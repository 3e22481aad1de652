// Comparison of whole outputs, the distance of two elements, and the tiles that the gates of
// quantize compare.
#include "check/judge/compare_outputs.hpp"
#include "check/judge/judge.hpp"
#include "check/product_case.hpp"

#include <set>

namespace octet {
namespace {

TEST(CompareOutputs, CountsElementsAndFindsTheLargestDistance) {
  const Tensor x(Dtype::bf16, {150, 70});
  fill_random(x, Distribution::normal, {1, 0}, 1);
  const Tensor y = copy_of(x);
  EXPECT_EQ(compare_whole_outputs(x, y).different, 0);
  auto* bits = static_cast<std::uint16_t*>(y.data());
  bits[7] = static_cast<std::uint16_t>(bits[7] + 1);
  bits[149 * 70 + 69] = static_cast<std::uint16_t>(bits[149 * 70 + 69] + 3);
  const OutputDifferences found = compare_whole_outputs(x, y);
  EXPECT_EQ(found.different, 2);
  EXPECT_EQ(found.largest_ulps, 3);
  const OutputDifferences turned =
      compare_whole_outputs(transposed(x.view()), transposed(y.view()));
  EXPECT_EQ(turned.different, 2);
  EXPECT_EQ(turned.largest_ulps, 3);
}

TEST(CompareOutputs, DistancesCrossZeroAndKnowNaN) {
  EXPECT_EQ(ulps_apart(0x0001, 0x8001, Dtype::bf16), 2);
  EXPECT_EQ(ulps_apart(0x0000, 0x8000, Dtype::f16), 0);
  EXPECT_EQ(ulps_apart(0x3F800000, 0x3F800001, Dtype::f32), 1);
  EXPECT_EQ(ulps_apart(0x7F800000, 0xFF800000, Dtype::f32), 2 * std::int64_t{0x7F800000});
  EXPECT_EQ(ulps_apart(0x7F80, 0x7F7F, Dtype::bf16), 1) << "infinity follows the largest number";
  EXPECT_EQ(ulps_apart(0x7E, 0x7F, Dtype::e4m3), kFar);
  EXPECT_EQ(ulps_apart(0x7E00, 0x3C00, Dtype::f16), kFar);
  EXPECT_EQ(ulps_apart(0x7FC0, 0xFFC1, Dtype::bf16), 0);
}

TEST(CompareOutputs, RefusesOutputsThatAreNotAlike) {
  const Tensor x(Dtype::bf16, {4, 5});
  EXPECT_THROW(compare_whole_outputs(x, Tensor(Dtype::f16, {4, 5})), Error);
  EXPECT_THROW(compare_whole_outputs(x, Tensor(Dtype::bf16, {5, 4})), Error);
}

TEST(JudgedTiles, AreAllOfASmallTensor) {
  EXPECT_EQ(judged_tiles(1, 1, 1), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(judged_tiles(16, 16, 1).size(), 256u);
}

TEST(JudgedTiles, OfALargeTensorAreManyAndHaveItsCorners) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<std::int64_t> tiles = judged_tiles(256, 832, seed);
    EXPECT_GT(tiles.size(), 250u);
    EXPECT_LE(tiles.size(), 260u);
    const std::set<std::int64_t> found(tiles.begin(), tiles.end());
    EXPECT_EQ(found.size(), tiles.size());
    for (const std::int64_t corner : {0, 831, 255 * 832, 256 * 832 - 1}) {
      EXPECT_EQ(found.count(corner), 1u) << corner;
    }
    EXPECT_GE(*found.begin(), 0);
    EXPECT_LT(*found.rbegin(), 256 * 832);
  }
  EXPECT_NE(judged_tiles(256, 832, 1), judged_tiles(256, 832, 2));
}

}  // namespace
}  // namespace octet
