// The random generator: known words, the shape of the distribution, and the same bits in any order.
#include "check/data/random.hpp"

#include <octet/buffer.hpp>
#include <octet/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

namespace octet {
namespace {

std::vector<float> numbers(RandomStream stream, std::int64_t count,
                           Distribution distribution = Distribution::normal) {
  std::vector<float> result(static_cast<std::size_t>(count));
  fill_random(make_view(result.data(), Dtype::f32, {1, count}), distribution, stream, 2);
  return result;
}

double fraction_beyond(const std::vector<float>& values, double limit) {
  const auto beyond = std::count_if(values.begin(), values.end(),
                                    [&](float value) { return std::fabs(value) > limit; });
  return static_cast<double>(beyond) / static_cast<double>(values.size());
}

double correlation(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) sum += double{x[i]} * y[i];
  return sum / static_cast<double>(std::min(x.size(), y.size()));
}

// The vectors published with the generator (Random123, kat_vectors).
TEST(Philox, GivesThePublishedWords) {
  const PhiloxBlock zeros = philox({{0, 0, 0, 0}}, {{0, 0}});
  EXPECT_EQ(zeros.word[0], 0x6627E8D5u);
  EXPECT_EQ(zeros.word[1], 0xE169C58Du);
  EXPECT_EQ(zeros.word[2], 0xBC57AC4Cu);
  EXPECT_EQ(zeros.word[3], 0x9B00DBD8u);
  const PhiloxBlock ones = philox({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}});
  EXPECT_EQ(ones.word[0], 0x408F276Du);
  EXPECT_EQ(ones.word[1], 0x41C83B0Eu);
  EXPECT_EQ(ones.word[2], 0xA20BC7C6u);
  EXPECT_EQ(ones.word[3], 0x6D5451FDu);
}

TEST(Normal, IsWithin1e4OfTheQuantile) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < 0x80000000u; bits += 65537) {
    const double p = 0.5 * (bits + 4.5) / 2147483648.0;
    const double z = normal_from_bits(bits);
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979);
    worst = std::max(worst, std::fabs(0.5 * std::erfc(z / std::sqrt(2.0)) - p) / density);
  }
  EXPECT_LT(worst, 1e-4);
}

TEST(Normal, StaysWithinSixAndIsSymmetric) {
  EXPECT_GT(normal_from_bits(0), 5.9f);
  EXPECT_LT(normal_from_bits(0), 6.0f);
  EXPECT_NEAR(normal_from_bits(0x7FFFFFFFu), 0, 1e-6);
  for (std::uint32_t bits = 1; bits < 0x7FFFFFFFu; bits += 1234567) {
    EXPECT_EQ(normal_from_bits(bits), -normal_from_bits(bits | 0x80000000u));
  }
}

TEST(Random, HasTheMomentsAndTailsOfTheNormalDistribution) {
  const std::vector<float> values = numbers({7, 0}, 1'000'000);
  double mean = 0;
  double square = 0;
  double fourth = 0;
  for (const float value : values) {
    mean += value * 1e-6;
    square += double{value} * value * 1e-6;
    fourth += std::pow(double{value}, 4) * 1e-6;
  }
  EXPECT_NEAR(mean, 0, 0.005);  // five standard errors
  EXPECT_NEAR(square, 1, 0.0075);
  EXPECT_NEAR(fourth, 3, 0.05);
  for (const double limit : {0.5, 1.0, 2.0, 3.0, 4.0}) {
    const double p = std::erfc(limit / std::sqrt(2.0));
    EXPECT_NEAR(fraction_beyond(values, limit), p, 5 * std::sqrt(p * 1e-6)) << limit;
  }
}

TEST(Random, NeighboursStreamsAndSeedsAreUncorrelated) {
  const std::vector<float> values = numbers({7, 0}, 1'000'000);
  for (const std::size_t lag : {1, 4, 16, 48, 64}) {
    const std::vector<float> later(values.begin() + static_cast<std::ptrdiff_t>(lag), values.end());
    EXPECT_NEAR(correlation(values, later), 0, 0.005) << "lag " << lag;
  }
  for (const RandomStream other : {RandomStream{7, 1}, {8, 0}, {7ull << 32, 0}}) {
    EXPECT_NEAR(correlation(values, numbers(other, 1'000'000)), 0, 0.005);
  }
}

TEST(Random, AnElementDependsOnlyOnItsIndex) {
  const std::vector<float> values = numbers({3, 5}, 5000);
  for (const std::size_t i : {0, 1, 15, 16, 63, 64, 777, 2047, 2048, 4999}) {
    EXPECT_EQ(values[i], random_normal({3, 5}, i)) << i;
  }
  EXPECT_NE(random_normal({3, 5}, 1), random_normal({3, 5}, 1ull << 34));
}

TEST(RandomThreads, ShapeStridesAndThreadsChangeNoBit) {
  constexpr std::int64_t kRows = 301;
  constexpr std::int64_t kCols = 1003;
  for (const Distribution distribution : {Distribution::normal, Distribution::skewed,
                                          Distribution::one_signed, Distribution::outliers}) {
    std::vector<float> dense(kRows * kCols);
    std::vector<float> pitched(kRows * (kCols + 9), -77.0f);
    fill_random(make_view(dense.data(), Dtype::f32, {kRows, kCols}), distribution, {1, 2}, 1);
    fill_random(make_matrix(pitched.data(), Dtype::f32, kRows, kCols, kCols + 9), distribution,
                {1, 2}, 7);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const float* row = pitched.data() + r * (kCols + 9);
      ASSERT_EQ(std::memcmp(row, dense.data() + r * kCols, kCols * sizeof(float)), 0) << r;
      ASSERT_EQ(std::count(row + kCols, row + kCols + 9, -77.0f), 9) << r;
    }
  }
}

TEST(Random, SixteenBitElementsAreTheRoundedNumbers) {
  const std::vector<float> values = numbers({3, 5}, 5000);
  std::vector<std::uint16_t> bf16(5000);
  std::vector<std::uint16_t> f16(5000);
  fill_random(make_view(bf16.data(), Dtype::bf16, {50, 100}), Distribution::normal, {3, 5}, 1);
  fill_random(make_view(f16.data(), Dtype::f16, {50, 100}), Distribution::normal, {3, 5}, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(bf16[i], bf16_from_f32(values[i]));
    ASSERT_EQ(f16[i], f16_from_f32(values[i]));
  }
}

TEST(Random, SkewedBlocksAreTheNormalNumbersTimesPowersOfTwo) {
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kCols = 900;
  std::vector<float> plain(kRows * kCols);
  std::vector<float> skewed(kRows * kCols);
  fill_random(make_view(plain.data(), Dtype::f32, {kRows, kCols}), Distribution::normal, {9, 0}, 2);
  fill_random(make_view(skewed.data(), Dtype::f32, {kRows, kCols}), Distribution::skewed, {9, 0},
              2);
  std::set<int> exponents;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kCols; ++c) {
      const float factor = skew({9, 0}, static_cast<std::uint64_t>(r / 128 * 8 + c / 128));
      exponents.insert(std::ilogb(factor));
      ASSERT_EQ(skewed[r * kCols + c], plain[r * kCols + c] * factor);
    }
  }
  EXPECT_EQ(exponents, (std::set<int>{-3, -2, -1, 0, 1, 2, 3}));  // 48 blocks
}

TEST(Random, OneSignedNumbersAreTheMagnitudesOfTheNormalOnes) {
  const std::vector<float> values = numbers({4, 0}, 3000);
  const std::vector<float> magnitudes = numbers({4, 0}, 3000, Distribution::one_signed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(magnitudes[i], std::fabs(values[i]));
  }
}

TEST(Random, OneOfEverySixtyFourNumbersIsAnOutlier) {
  const std::vector<float> plain = numbers({9, 4}, 6400);
  const std::vector<float> given = numbers({9, 4}, 6400, Distribution::outliers);
  std::set<std::size_t> places;
  for (std::size_t run = 0; run < given.size(); run += 64) {
    int found = 0;
    for (std::size_t i = run; i < run + 64; ++i) {
      const float factor = outlier({9, 4}, i);
      ASSERT_EQ(given[i], plain[i] * factor);
      if (factor == 1) continue;
      EXPECT_EQ(factor, 100);
      places.insert(i - run);
      ++found;
    }
    EXPECT_EQ(found, 1) << run;
  }
  EXPECT_GT(places.size(), 30u);  // of 64, drawn 100 times
}

TEST(Random, RefusesWhatIsNotAFloatMatrix) {
  std::uint8_t bytes[16];
  EXPECT_THROW(fill_random(make_view(bytes, Dtype::e4m3, {4, 4}), Distribution::normal, {}, 1),
               Error);
  EXPECT_THROW(fill_random(make_view(static_cast<void*>(nullptr), Dtype::f32, {1, 1}),
                           Distribution::normal, {}, 1),
               Error);
}

}  // namespace
}  // namespace octet
