// The parsers of cases/ and the data there.
#include "tool/cases/cases.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include "bench/report/record.hpp"

#include <gtest/gtest.h>

#include <set>

namespace octet::tool {
namespace {

// The message of the UsageError that `call` throws.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Cases, Dense84HasEightyFourCasesOfSevenModels) {
  const std::vector<LayerCase> cases = load_suite("dense84");
  ASSERT_EQ(cases.size(), 84u);
  std::set<std::string> ids;
  std::set<std::string> models;
  for (const LayerCase& layer : cases) {
    ids.insert(layer.test_id);
    models.insert(layer.model);
    EXPECT_EQ(layer.m % layer.mbs, 0) << layer.test_id;
  }
  EXPECT_EQ(ids.size(), 84u);
  EXPECT_EQ(models.size(), 7u);
  EXPECT_EQ(cases[0].name(), "Llama-2-7B attn_qkv");
}

TEST(Cases, QuickIsTheSixteenLayersOfTheSmallModelsAtSixtyFourTokens) {
  const std::vector<LayerCase> cases = load_suite("quick");
  ASSERT_EQ(cases.size(), 16u);
  std::set<std::string> models;
  for (const LayerCase& layer : cases) {
    EXPECT_EQ(layer.m, 64);
    EXPECT_EQ(layer.mbs, 1);
    models.insert(layer.model);
  }
  EXPECT_EQ(models,
            (std::set<std::string>{"Llama-2-7B", "Llama-3.1-8B", "Mistral-7B", "Qwen2.5-7B"}));
  EXPECT_EQ(cases[2].n, 22016);
  EXPECT_EQ(cases[2].k, 4096);
}

TEST(Cases, ModelsAreFoundWhateverTheirCase) {
  EXPECT_EQ(select_cases(load_suite("dense84"), {"llama-2-7b"}, {4}).size(), 4u);
}

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

TEST(Suites, RefuseWhatIsNoListOfSuites) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { parse_suites(text, "s.yaml"); });
  };
  EXPECT_EQ(refused("[1]"), "s.yaml:1:1: the file must be a map");
  EXPECT_EQ(refused("groups: {}"),
            "s.yaml:1:1: the file has the unknown key \"groups\"; there are: suites");
  EXPECT_EQ(refused("suites: {a: 1}"), "s.yaml:1:13: suite a must be a map");
  EXPECT_EQ(refused("suites: {a: {about: x}}"), "s.yaml:1:13: suite a must name its source");
  EXPECT_EQ(refused("suites: {a: {source: x, mbs: [0]}}"),
            "s.yaml:1:31: mbs must be a whole number of at least 1");
  EXPECT_EQ(refused("suites: {a: {source: x, models: y}}"), "s.yaml:1:33: models must be a list");
  EXPECT_EQ(
      refused("suites: {a: {source: x, m: y}}"),
      "s.yaml:1:25: suite a has the unknown key \"m\"; there are: about, mbs, models, source, "
      "tokens");
  EXPECT_EQ(refused("suites: {a: ["), "s.yaml:1:14: not YAML: end of sequence flow not found");
  for (const std::string second : {"---\nsuites: {}\n", "--- # only a comment\n", "...\n---\n"}) {
    const std::string line = second[0] == '.' ? "5" : "4";
    EXPECT_EQ(refused("---\n# one\nsuites: {a: {source: x}}\n" + second),
              "s.yaml:" + line + ":1: a second document begins here, wanted one");
  }
}

TEST(Suites, OneDocumentMayHaveItsMarks) {
  const std::string text = "# one\n---\nsuites: {a: {source: x, about: '---'}}\n...\n# the end\n";
  EXPECT_EQ(parse_suites(text, "s.yaml").size(), 1u);
}

TEST(Suites, TokensReplaceM) {
  const auto suites =
      parse_suites("suites: {s: {source: x.csv, models: [b], mbs: [2], tokens: 7}}", "s.yaml");
  ASSERT_EQ(suites.size(), 1u);
  const auto cases = suite_cases(suites[0],
                                 "test_id,model,op,mbs,M,N,K\n1,A,o,2,64,5,6\n2,B,o,2,64,5,6\n"
                                 "3,B,o,1,64,5,6\n");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].test_id, "2");
  EXPECT_EQ(cases[0].m, 7);
  EXPECT_EQ(cases[0].n, 5);
}

}  // namespace
}  // namespace octet::tool
