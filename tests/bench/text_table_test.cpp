// Text for people: tables that fit a terminal, units that fit the values, escaped text.
#include "bench/report/tables.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace octet::bench {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

const std::vector<Row> kWide{
    {"case", "device", "implementation", "TFLOPS", "note"},
    {"Llama-3.1-8B attention", "NVIDIA H200", "cuda_sm90_wgmma", "1234", "noisy"},
    {"Llama-3.1-8B gate and up", "NVIDIA H200", "cuda_sm90_tile", "987.6", ""}};

TEST(TextTable, EscapesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(printable("a\033[31mb\a\n\x7f"), "a\\x1b[31mb\\x07\\x0a\\x7f");
  EXPECT_EQ(printable("é · …"), "é · …");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "the C1 control that begins a sequence, as UTF-8";
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "not UTF-8";
  EXPECT_EQ(table_text({{"\033[2J"}}, {}), "\\x1b[2J\n");
}

TEST(TextTable, CutsByCharactersNotBytes) {
  EXPECT_EQ(cut("abcdef", 6), "abcdef");
  EXPECT_EQ(cut("abcdef", 4), "abc…");
  EXPECT_EQ(cut("äöüäöü", 4), "äöü…");
  EXPECT_EQ(width_of("äöü…"), 4u);
}

TEST(TextTable, ChoosesTheUnitOfTheMedian) {
  EXPECT_EQ(fitting_unit("TFLOPS", {0.08, 0.5, 0.02}).name, "GFLOPS");
  EXPECT_EQ(fitting_unit("TFLOPS", {0.08, 1200, 900}).name, "TFLOPS");
  EXPECT_EQ(fitting_unit("TFLOPS", {8e-5}).name, "MFLOPS");
  EXPECT_EQ(fitting_unit("TB/s", {0.0144, kNan}).name, "GB/s");
  EXPECT_EQ(fitting_unit("GB/s", {4200}).name, "TB/s");
  EXPECT_EQ(fitting_unit("ms", {0.02}).name, "us");
  EXPECT_EQ(fitting_unit("ms", {kNan}).name, "ms") << "no value: as given";
  EXPECT_EQ(fitting_unit("GB/s", {4200}).text(4200), "4.2");
  EXPECT_EQ(fitting_unit("ms", {0.02}).text(0.02274), "22.74");
  EXPECT_EQ(fitting_unit("ms", {1}).text(kNan), "-");
}

TEST(TextTable, IsWholeWhereTheWidthIsUnlimited) {
  EXPECT_EQ(lines_of(table_text(kWide, {3}))[1],
            "Llama-3.1-8B attention    NVIDIA H200  cuda_sm90_wgmma    1234  noisy");
}

TEST(TextTable, MovesConstantColumnsAboveBeforeItCuts) {
  const std::vector<std::string> lines = lines_of(table_text(kWide, {3, false, 60}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "device NVIDIA H200");
  EXPECT_EQ(lines[1], "case                      implementation   TFLOPS  note");
  EXPECT_EQ(lines[2], "Llama-3.1-8B attention    cuda_sm90_wgmma    1234  noisy");
}

TEST(TextTable, LeavesOutEmptyColumnsFirst) {
  EXPECT_EQ(
      table_text({{"shape", "options", "note"}, {"64x64", "--weight bf16", ""}}, {1, false, 22}),
      "shape  options\n"
      "64x64  --weight bf16\n");
}

TEST(TextTable, TheLinesAboveFitToo) {
  std::vector<Row> rows{{"case", "device", "implementation", "commit", "TFLOPS"}};
  for (const char* name : {"one", "two"}) {
    rows.push_back({name, "NVIDIA H200", "cuda_sm90_wgmma", "0123456789ab", "1"});
  }
  EXPECT_EQ(table_text(rows, {1, false, 34}),
            "device NVIDIA H200\n"
            "implementation cuda_sm90_wgmma\n"
            "commit 0123456789ab · TFLOPS 1\n"
            "case\n"
            "one\n"
            "two\n");
}

TEST(TextTable, CutsTheWidestTextsAndNeverANumber) {
  const std::vector<std::string> lines = lines_of(table_text(kWide, {3, false, 40}));
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_LE(width_of(line), 40u) << line;
  EXPECT_EQ(lines[2], "Llama-3.1-…  cuda_sm90_w…    1234  noisy");
}

TEST(TextTable, NeverCutsAShape) {
  EXPECT_EQ(
      table_text({{"shape", "problem", "us"}, {"16384x53248x16384", "a long description", "12"}},
                 {1, false, 32}),
      "shape              problem    us\n"
      "16384x53248x16384  a long d…  12\n");
}

TEST(TextTable, NamesTheColumnsThatDoNotFit) {
  const std::vector<std::string> lines = lines_of(table_text(kWide, {3, false, 24}));
  ASSERT_EQ(lines.size(), 5u);
  for (const std::string& line : {lines[1], lines[2], lines[3]}) EXPECT_LE(width_of(line), 24u);
  EXPECT_EQ(lines[4], "not shown: TFLOPS, note (--wide shows all)");
}

TEST(TextTable, AScoreHasTheUnitOfItsSizeAndItsCount) {
  const Row header{"Forward TFLOPS", "Backward TFLOPS", "Combined Step TFLOPS", "Baseline",
                   "Forward Ratio",  "Backward Ratio",  "Combined Ratio"};
  EXPECT_EQ(score_text(header, {{"0.1", "0.4", "0.2", "openblas", "1.5", "2.5", "2"},
                                {"", "", "", "openblas", "", "", ""}}),
            "Score: 200 GFLOPS, forward + backward (geometric mean of 1 case); forward 100, "
            "backward 400\n"
            "Speed: 2x openblas (forward 1.5x, backward 2.5x); medians over pairs timed side by "
            "side\n");
  EXPECT_EQ(score_text(header, {{"", "", "", "openblas", "", "", ""}}), "") << "no row has a rate";
}

TEST(TextTable, AShareOfCopyBandwidthIsNoScore) {
  const Row header{"Combined Step GB/s", "Combined Copy Ratio", "Forward Copy Ratio",
                   "Backward Copy Ratio"};
  EXPECT_EQ(score_text(header, {{"2000", "0.5", "0.25", "0.75"}, {"8000", "0.5", "0.25", "0.75"}}),
            "Score: 4 TB/s (geometric mean of 2 cases)\n"
            "Share of copy bandwidth: 50 % (forward 25 %, backward 75 %); medians over pairs timed "
            "side by side\n");
}

TEST(TextTable, GroupsOfRowsHaveAScoreEach) {
  const Row header{"Case", "Combined Step TFLOPS", "Baseline", "Combined Ratio"};
  const Row few{"random M<=256 9/1", "1", "cublaslt", "0.5"};
  const Row many{"random M>256 9/2", "100", "cublaslt", "2"};
  const GroupOf group_of = [](const Record& row) {
    return row.at("Case").substr(0, row.at("Case").rfind(' '));
  };
  EXPECT_EQ(score_text(header, {few, many, few}, group_of),
            "Score of random M<=256: 1 TFLOPS (geometric mean of 2 cases)\n"
            "Speed of random M<=256: 0.5x cublaslt; medians over pairs timed side by side\n"
            "Score of random M>256: 100 TFLOPS (geometric mean of 1 case)\n"
            "Speed of random M>256: 2x cublaslt; medians over pairs timed side by side\n");
  EXPECT_EQ(score_text(header, {few}, group_of).rfind("Score: 1 TFLOPS", 0), 0u)
      << score_text(header, {few}, group_of);
}

}  // namespace
}  // namespace octet::bench
