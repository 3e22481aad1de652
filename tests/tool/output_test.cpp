// Where rows cannot go, or something else stands: status 2, one line, and nothing is lost.
#include "results.hpp"

#include <algorithm>
#include <fstream>

namespace octet::tool {
namespace {

const std::string kOne = "bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3 ";

void expect_refused(const Outcome& outcome, const std::string& reason) {
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
}

TEST(ToolOutput, KeepsAFileOfSomethingElse) {
  for (const std::string text : {"my,own,table\n1,2,3\n", "x", "\n"}) {
    for (const std::string suffix : {"", ".partial"}) {
      const Folder folder;
      const std::string path = folder.file("x.csv");
      std::ofstream(path + suffix) << text;
      for (const std::string fresh : {"", " --fresh"}) {
        expect_refused(run_tool(kOne + "-o " + path + fresh), "something else than results");
      }
      EXPECT_EQ(read_file(path + suffix), text);
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    }
  }
}

TEST(ToolOutput, FillsAnEmptyFile) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  std::ofstream(path).flush();
  EXPECT_EQ(run_tool(kOne + "-o " + path).status, 0);
  EXPECT_EQ(read_results(path).records.size(), 1u);
}

TEST(ToolOutput, ReplacesResultsOfAnotherOperatorOnlyWhenAsked) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string cast =
      "bench quantize --device cpu --shape 8x16 --warmup 1 --iters 5 -o " + path;
  ASSERT_EQ(run_tool(kOne + "-o " + path).status, 0);
  const std::string text = read_file(path);
  expect_refused(run_tool(cast), "other columns");
  EXPECT_EQ(read_file(path), text);
  EXPECT_EQ(run_tool(cast + " --fresh").status, 0);
  EXPECT_EQ(read_results(path).records.at(0).at("Cols"), "16");
}

// A limit on the size of files stands for the full disk: the header and the first rows fit.
TEST(ToolOutput, ADiskThatFillsUpKeepsTheRowsSoFar) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string many =
      kOne + "--shape 9x16x32 --shape 10x16x32 --shape 11x16x32 --shape 12x16x32 -o " + path;
  expect_refused(run_tool(many, "trap '' XFSZ; ulimit -f 4;"), "the rows so far are in " + path);
  const Outcome again = run_tool(many);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find(" of 5 cases were in "), std::string::npos) << again.out;
  EXPECT_EQ(read_results(path).records.size(), 5u);
}

TEST(ToolOutput, APrintoutThatDoesNotArriveIsAnError) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  expect_refused(run_tool(kOne + "-o " + path + " >/dev/full"), "No space left on device");
  EXPECT_EQ(read_results(path).records.size(), 1u) << "the rows are kept";
}

}  // namespace
}  // namespace octet::tool
