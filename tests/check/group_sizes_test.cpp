// The sizes of groups that checks and benchmarks draw.
#include "check/data/group_sizes.hpp"
#include "support/refusal.hpp"

#include <octet/ops/group_table.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace octet {
namespace {

using Kind = GroupSpread::Kind;
using Sizes = std::vector<std::int64_t>;

constexpr Kind kKinds[] = {Kind::balanced, Kind::skewed, Kind::zipf, Kind::half_empty,
                           Kind::one_hot};

std::int64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

TEST(GroupSizesDrawn, GiveEveryRowToAGroup) {
  for (const Kind kind : kKinds) {
    for (const std::int64_t groups : {1, 2, 3, 8, 257, 1024}) {
      for (const std::int64_t rows : {1, 7, 128, 4096, 1 << 30}) {
        for (const std::uint64_t seed : {1, 2}) {
          const Sizes sizes = group_sizes({kind}, groups, rows, seed);
          ASSERT_EQ(sizes.size(), static_cast<std::size_t>(groups));
          EXPECT_EQ(sum(sizes), rows) << name(GroupSpread{kind}) << " " << groups;
          EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), 0);
          EXPECT_EQ(sizes, group_sizes({kind}, groups, rows, seed)) << "not deterministic";
        }
      }
    }
  }
}

TEST(GroupSizesDrawn, HaveTheirShapes) {
  EXPECT_EQ(group_sizes({Kind::balanced}, 4, 10, 1), (Sizes{3, 3, 2, 2}));
  EXPECT_EQ(group_sizes({Kind::half_empty}, 5, 10, 1), (Sizes{4, 0, 3, 0, 3}));
  const Sizes one_hot = group_sizes({Kind::one_hot}, 8, 100, 1);
  EXPECT_EQ(std::count(one_hot.begin(), one_hot.end(), 0), 7);
  Sizes zipf = group_sizes({Kind::zipf}, 4, 2500, 1);  // 1/1 to 1/4 add up to 25/12
  std::sort(zipf.begin(), zipf.end());
  EXPECT_NEAR(zipf[3], 1200, 2);
  EXPECT_NEAR(zipf[2], 600, 2);
  EXPECT_NEAR(zipf[1], 400, 2);
  EXPECT_NEAR(zipf[0], 300, 2);
}

// Weights lie between 0.2 and 1, so no group has more than five times the rows of another, but for
// the rest that the last one has.
TEST(GroupSizesDrawn, SkewWithinFiveTimes) {
  const Sizes sizes = group_sizes({Kind::skewed}, 64, 64 * 1000, 3);
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  EXPECT_GT(*least, 200);
  EXPECT_LT(*most, 5 * *least + 64);
  EXPECT_GT(*most, 2 * *least) << "that is balanced";
  EXPECT_NE(sizes, group_sizes({Kind::skewed}, 64, 64 * 1000, 4));
}

TEST(GroupSizesDrawn, AreReadAsTheyArePrinted) {
  for (const Kind kind : kKinds) {
    EXPECT_EQ(parse_group_spread(name(GroupSpread{kind})), GroupSpread{kind});
  }
  const GroupSpread given{Kind::given, {0, 1, 127}};
  EXPECT_EQ(name(given), "0,1,127");
  EXPECT_EQ(parse_group_spread("0,1,127"), given);
  EXPECT_EQ(group_sizes(given, 3, 500, 1), given.sizes);
  for (const char* text : {"", "1,", ",1", "1,,2", "-1", "1,x", "even", "1;2", "1073741825"}) {
    EXPECT_EQ(parse_group_spread(text), std::nullopt) << text;
  }
}

TEST(GroupSizesDrawn, RefusesSizesThatDoNotFit) {
  const GroupSpread given{Kind::given, {100, 200}};
  EXPECT_EQ(refusal([&] { group_sizes(given, 3, 500, 1); }),
            "group sizes: 2 sizes were given for 3 groups");
  EXPECT_EQ(refusal([&] { group_sizes(given, 2, 299, 1); }),
            "group sizes: their sum must be at most the 299 rows, got 300");
}

TEST(GroupSizesDrawn, MakeTablesAndSources) {
  const Sizes sizes{3, 0, 200};
  const GroupTableReport report = read_group_table(make_group_table(sizes, 210, kCpu));
  EXPECT_EQ(report.groups, 3);
  EXPECT_EQ(report.rows, 210);
  EXPECT_EQ(report.grouped_rows, 203);
  const std::vector<std::int32_t> source = draw_source(sizes, 210, 50, 1);
  ASSERT_EQ(source.size(), 210u);
  EXPECT_TRUE(std::is_sorted(source.begin(), source.begin() + 3));
  EXPECT_TRUE(std::is_sorted(source.begin() + 3, source.begin() + 203));
  EXPECT_TRUE(std::all_of(source.begin(), source.begin() + 203,
                          [](std::int32_t row) { return row >= 0 && row < 50; }));
  EXPECT_TRUE(
      std::all_of(source.begin() + 203, source.end(), [](std::int32_t row) { return row == -1; }));
}

}  // namespace
}  // namespace octet
