// Outputs that cannot be written or are other files: status 2, one line, and nothing is lost.
#include "background_tool.hpp"
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
        expect_refused(run_tool(kOne + "-o " + path + fresh), "does not hold results");
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

TEST(ToolOutput, ReplacesAnOperatorWithTheSameColumnsOnlyWhenAsked) {
  const std::string brief = " --device cpu --warmup 1 --iters 5 -o ";
  for (const std::string suffix : {"", ".partial"}) {
    const Folder folder;
    const std::string path = folder.file("x.csv");
    const std::string norm = "bench rms-norm --shape 4x256" + brief + path;
    ASSERT_EQ(run_tool("bench rope --shape 1x4x256" + brief + path).status, 0);
    const std::string text = read_file(path);
    if (!suffix.empty()) std::filesystem::rename(path, path + suffix);
    expect_refused(run_tool(norm),
                   "x.csv" + suffix + ": has results of rope, this run has those of rms-norm");
    EXPECT_EQ(read_file(path + suffix), text);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    EXPECT_EQ(run_tool(norm + " --fresh").status, 0);
    ASSERT_EQ(read_results(path).records.size(), 1u);
    EXPECT_EQ(read_results(path).records[0].at("Operator"), "rms-norm");
  }
}

TEST(ToolOutput, RefusesResultsThatItCouldNotKeep) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  ASSERT_EQ(run_tool(kOne + "-o " + path).status, 0);
  const std::string text = read_file(path);
  const std::string header = text.substr(0, text.find('\n') + 1);
  for (const auto& [broken, reason] : std::vector<std::pair<std::string, std::string>>{
           {text.substr(0, text.size() - 9), "row 2 does not end with a line end"},
           {header + "1,cpu,none\n", "row 2 has 3 fields"},
           {text + "2,\"cpu\n", "row 3 is not CSV"}}) {
    std::ofstream(path) << broken;
    expect_refused(run_tool(kOne + "--shape 9x16x32 -o " + path), reason);
    EXPECT_EQ(read_file(path), broken);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  }
  EXPECT_EQ(run_tool(kOne + "--fresh -o " + path).status, 0);
  EXPECT_EQ(read_results(path).records.size(), 1u);
}

TEST(ToolOutput, IsWrittenThroughALink) {
  const Folder folder;
  std::filesystem::create_directory(folder.file("away"));
  const std::string real = folder.file("away/real.csv");
  const std::string link = folder.file("link.csv");
  // The links are relative, and the first leads to the second.
  std::filesystem::create_symlink("away/link.csv", link);
  std::filesystem::create_symlink("real.csv", folder.file("away/link.csv"));
  const std::string more = "--shape 9x16x32 -o " + link + " --json " + folder.file("json");
  std::filesystem::create_symlink("away/real.json", folder.file("json"));
  ASSERT_EQ(run_tool(kOne + "-o " + link).status, 0) << "a link to nothing makes its target";
  ASSERT_EQ(read_results(real).records.size(), 1u);
  const Outcome again = run_tool(kOne + more);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("1 of 2 cases "), std::string::npos) << again.out;
  EXPECT_EQ(read_results(real).records.size(), 2u);
  EXPECT_NE(read_file(folder.file("away/real.json")).find("\"rows\""), std::string::npos);
  for (const char* name : {"link.csv", "away/link.csv", "json"}) {
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file(name))) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("away")), {}), 3);
  const std::string page = folder.file("page.html");
  std::filesystem::create_symlink("away/page.html", page);
  ASSERT_EQ(run_tool("report " + folder.path().string() + " -o " + page).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(page));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder.file("away/page.html")));
}

TEST(ToolOutput, TakesUpAKilledRunUnderEveryNameOfAFile) {
  const Folder folder;
  const std::string real = folder.file("real.csv");
  const std::string link = folder.file("link.csv");
  ASSERT_EQ(run_tool(kOne + "-o " + real).status, 0);
  std::filesystem::rename(real, real + ".partial");
  std::filesystem::create_symlink("real.csv", link);
  const Outcome again = run_tool(kOne + "-o " + link);
  EXPECT_NE(again.out.find("1 of 1 "), std::string::npos) << again.out << again.err;
  EXPECT_EQ(read_results(real).records.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(real + ".partial"));
}

TEST(ToolOutput, LinksInALoopAreRefused) {
  const Folder folder;
  const std::string one = folder.file("a.csv");
  std::filesystem::create_symlink("b.csv", one);
  std::filesystem::create_symlink("a.csv", folder.file("b.csv"));
  for (const std::string option : {"-o ", "--json "}) {
    expect_refused(run_tool(kOne + option + one), option + one + ": Too many levels of symbolic");
  }
  const std::string rows = folder.file("rows.csv");
  ASSERT_EQ(run_tool(kOne + "-o " + rows).status, 0);
  expect_refused(run_tool("report " + rows + " -o " + one), "-o " + one + ": Too many levels");
  expect_refused(run_tool("compare " + rows + " " + one), one + ": Too many levels of symbolic");
  expect_refused(run_tool("summarize " + one), one + ": ");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
}

TEST(ToolOutput, TwoRunsAtOnceDoNotWriteOneFile) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  BackgroundTool first({"bench",
                        "gemm",
                        "--device",
                        "cpu",
                        "--shape",
                        "8x16x32",
                        "--shape",
                        "9x16x32",
                        "--warmup",
                        "1",
                        "--iters",
                        "100000000",
                        "--seconds-per-case",
                        "0.2",
                        "--num-shards",
                        "2",
                        "--shard-id",
                        "0",
                        "-o",
                        path});
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(path + ".partial"); }));
  kill(first.pid(), SIGSTOP);  // so that it holds the lock until the other gives up
  const std::string second = kOne + "--shape 9x16x32 --num-shards 2 --shard-id 1 -o " + path;
  expect_refused(run_tool(second), "-o " + path + ": in use by another octet run");
  EXPECT_EQ(first.end(SIGKILL), -SIGKILL);
  EXPECT_EQ(run_tool(second).status, 0) << "a killed run is in nobody's way";
  EXPECT_EQ(read_results(path).records.size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// A limit on the size of files simulates a full disk; the header and the first rows fit.
TEST(ToolOutput, ADiskThatFillsUpKeepsTheRowsSoFar) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string many =
      kOne + "--shape 9x16x32 --shape 10x16x32 --shape 11x16x32 --shape 12x16x32 -o " + path;
  expect_refused(run_tool(many, "trap '' XFSZ; ulimit -f 4;"), "the rows so far are in " + path);
  const Outcome again = run_tool(many);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find(" of 5 cases already in "), std::string::npos) << again.out;
  EXPECT_EQ(read_results(path).records.size(), 5u);
}

TEST(ToolOutput, APrintoutThatDoesNotArriveIsAnError) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  expect_refused(run_tool(kOne + "-o " + path + " >/dev/full"), "No space left on device");
  expect_refused(run_tool("--help >/dev/full"), "standard output: the help could not be written");
  EXPECT_EQ(read_results(path).records.size(), 1u) << "the rows are kept";
}

}  // namespace
}  // namespace octet::tool
