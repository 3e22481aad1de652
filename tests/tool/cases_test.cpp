// The parsers of CSV files of cases.
#include "refusal.hpp"

#include "tool/cases/cases.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include "bench/report/record.hpp"

#include <gtest/gtest.h>

namespace octet::tool {
namespace {

TEST(Cases, ColumnsMayStandInAnyOrderAndFieldsMayBeQuoted) {
  const auto cases =
      parse_cases("K,N,M,mbs,op,model,test_id\n3,2,1,9,\"a \"\"b\"\", c\",X,id\r\n\n", "x.csv");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].test_id, "id");
  EXPECT_EQ(cases[0].op, "a \"b\", c");
  EXPECT_EQ(cases[0].m, 1);
  EXPECT_EQ(cases[0].k, 3);
}

TEST(Cases, RefusesWhatIsNoListOfCases) {
  const std::string header = "test_id,model,op,mbs,M,N,K\n";
  const auto refused = [](const std::string& text) {
    return refusal([&] { parse_cases(text, "x.csv"); });
  };
  EXPECT_EQ(refused(""), "x.csv: the file is empty; wanted a first row test_id,model,op,mbs,M,N,K");
  EXPECT_EQ(refused("a,b\n"),
            "x.csv: the first row must name the columns test_id,model,op,mbs,M,N,K; there is no "
            "test_id");
  EXPECT_EQ(refused(header), "x.csv: there is no case below the first row");
  EXPECT_EQ(refused(header + "1,2\n"), "x.csv: row 2 has 2 fields, the first row has 7");
  EXPECT_EQ(refused(header + "1,a,b,1,-4,5,6\n"),
            "x.csv: row 2: M must be a whole number of at least 1, got \"-4\"");
  EXPECT_NE(refused(header + "1,\"a,b,1,4,5,6\n").find("x.csv: row 2 is not CSV"),
            std::string::npos);
}

TEST(Cases, CsvFieldsComeBackAsTheyWereWritten) {
  const bench::Row row{"plain", "with, comma", "with \"quotes\"", "two\nlines", "", " blank "};
  EXPECT_EQ(parse_csv(bench::csv_line(row), "file"), std::vector<bench::Row>{row});
}

TEST(Cases, ShapesAreWholeNumbersJoinedByX) {
  std::int64_t shape[3] = {0, 0, 0};
  EXPECT_TRUE(parse_shape("1x22x9223372036854775807", shape, 3));
  EXPECT_EQ(shape[1], 22);
  EXPECT_EQ(shape[2], INT64_MAX);
  for (const char* text : {"", "x", "1x2", "1x2x", "1x2x3x", "1x2x3x4", "0x1x1", "-1x1x1", "+1x1x1",
                           "1X2X3", "1 x2x3", "1x2x9223372036854775808", "1.5x2x3"}) {
    EXPECT_FALSE(parse_shape(text, shape, 3)) << text;
  }
}

}  // namespace
}  // namespace octet::tool
