// A run that was stopped continues where it was, and keeps no row that was measured differently.
#include "results.hpp"

#include <fstream>

namespace octet::tool {
namespace {

const std::string kTwo = "bench gemm --device cpu --shape 8x16x32 --shape 9x17x33 ";
const std::string kBrief = "--warmup 1 --iters 3 ";

bool says(const Outcome& outcome, const std::string& text) {
  return outcome.out.find(text) != std::string::npos;
}

// Begins with a file of two cases.
class ToolResume : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(run_tool(kTwo + kBrief + "-o " + path_).status, 0); }

  const Folder folder_;
  const std::string path_ = folder_.file("x.csv");
};

TEST_F(ToolResume, KeepsRowsAndRunsTheOthers) {
  const Results first = read_results(path_);
  const Outcome again = run_tool(kTwo + "--shape 10x18x34 " + kBrief + "-o " + path_);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(says(again, "2 of 3 cases already in " + path_)) << again.out;
  EXPECT_TRUE(says(again, "3 PASS, 0 FAIL, 0 ERROR")) << again.out;
  const Results second = read_results(path_);
  ASSERT_EQ(second.records.size(), 3u);
  EXPECT_EQ(second.records[0], first.records[0]) << "times and all";
  EXPECT_EQ(second.records[1], first.records[1]);
  EXPECT_EQ(second.records[2].at("M"), "10");
}

TEST_F(ToolResume, TakesUpWhatAKilledRunLeft) {
  const Results first = read_results(path_);
  // As if killed while it wrote the second row.
  const std::string text = read_file(path_);
  std::filesystem::remove(path_);
  std::ofstream(path_ + ".partial") << text.substr(0, text.size() - 30);
  const Outcome again = run_tool(kTwo + kBrief + "-o " + path_);
  EXPECT_TRUE(says(again, "1 of 2 cases already in " + path_)) << again.out;
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  const Results second = read_results(path_);
  ASSERT_EQ(second.records.size(), 2u);
  EXPECT_EQ(second.records[0], first.records[0]);
  EXPECT_EQ(second.records[1].at("Check"), "PASS");
}

TEST_F(ToolResume, OtherSettingsAreMeasuredAnew) {
  for (const std::string other : {"--warmup 1 --iters 4 ", "--warmup 1 --iters 3 --seed 2 ",
                                  "--warmup 1 --iters 3 --fresh "}) {
    const Outcome again = run_tool(kTwo + other + "-o " + path_);
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_FALSE(says(again, "already")) << other << again.out;
  }
}

TEST_F(ToolResume, SaysWhichSettingsTheReplacedRowsHad) {
  const std::string one = "bench gemm --device cpu --shape 8x16x32 ";
  const auto run = [&](const std::string& command) {
    return run_tool(command + "-o " + path_).out;
  };
  const auto replaced = [](const std::string& text) {
    const std::size_t begin = text.find("replaced ");
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(replaced(run(kTwo + kBrief)), "") << "the rows are kept";
  EXPECT_EQ(replaced(run(one + kBrief + "--seed 2 ")),
            "replaced 1 row measured with other settings (seed 1, now 2)");
  EXPECT_EQ(replaced(run(kTwo + "--warmup 1 --iters 4 --seed 2 ")),
            "replaced 2 rows measured with other settings (--iters 3, now 4; seed 1, now 2)");
  run(kTwo + kBrief + "--threads 1 ");
  EXPECT_EQ(replaced(run(kTwo + kBrief + "--threads 2 ")),
            "replaced 2 rows measured with other settings (threads 1, now 2)");
}

TEST_F(ToolResume, AnotherBuildsRowsAreMeasuredAnew) {
  std::string text = read_file(path_);
  const std::string commit = read_results(path_).records[0].at("Commit");
  text.replace(text.find(commit), commit.size(), "another");  // only of the first row
  std::ofstream(path_) << text;
  const Outcome again = run_tool(kTwo + kBrief + "-o " + path_);
  EXPECT_TRUE(says(again, "1 of 2 cases already in ")) << again.out;
  EXPECT_EQ(read_results(path_).records[0].at("Commit"), commit);
}

TEST_F(ToolResume, RowsThatDidNotPassAreRunAgain) {
  std::string text = read_file(path_);
  text.replace(text.find("PASS"), 4, "ERROR");
  std::ofstream(path_) << text;
  const Outcome again = run_tool(kTwo + kBrief + "-o " + path_);
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_TRUE(says(again, "1 of 2 cases already in ")) << again.out;
}

TEST_F(ToolResume, RowsOfOtherCasesStay) {
  const Results first = read_results(path_);
  const std::string other = "bench gemm --device cpu --shape 10x18x34 " + kBrief + "-o " + path_;
  const Outcome none = run_tool(other + " --max-seconds 0");
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_TRUE(says(none, "2 rows of other cases kept in " + path_)) << none.out;
  EXPECT_EQ(read_results(path_).records, first.records);
  const Outcome one = run_tool(other);
  EXPECT_TRUE(says(one, "1 PASS, 0 FAIL, 0 ERROR")) << one.out;
  Results all = read_results(path_);
  ASSERT_EQ(all.records.size(), 3u);
  EXPECT_EQ(all.records[2].at("M"), "10") << "behind those that were there";
  all.records.pop_back();
  EXPECT_EQ(all.records, first.records) << "times and all";
  // One of the three is now the first of its run: it is measured again and appears once.
  ASSERT_EQ(run_tool("bench gemm --device cpu --shape 9x17x33 " + kBrief + "-o " + path_).status,
            0);
  const Results again = read_results(path_);
  ASSERT_EQ(again.records.size(), 3u);
  EXPECT_EQ(again.records[0], first.records[0]);
  EXPECT_EQ(again.records[1].at("M"), "10");
  EXPECT_EQ(again.records[2].at("M"), "9");
  ASSERT_EQ(run_tool(other + " --fresh").status, 0);
  EXPECT_EQ(read_results(path_).records.size(), 1u);
}

TEST_F(ToolResume, ARowStaysUntilItsCaseHasBeenRunAgain) {
  const Results first = read_results(path_);
  const std::string slower = kTwo + "--warmup 1 --iters 4 -o " + path_;
  ASSERT_EQ(run_tool(slower + " --max-seconds 0").status, 0);
  EXPECT_EQ(read_results(path_).records, first.records);
  ASSERT_EQ(run_tool(slower + " --num-shards 2 --shard-id 0").status, 0);
  Results results = read_results(path_);
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[0].at("Iterations"), "4");
  EXPECT_EQ(results.records[1], first.records[1]);
  ASSERT_EQ(run_tool(slower).status, 0);
  results = read_results(path_);
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[1].at("Iterations"), "4");
}

TEST_F(ToolResume, AKilledRunsRowsOfOtherCasesStay) {
  const std::string killed = folder_.file("y.csv");
  ASSERT_EQ(run_tool(kTwo + "--shape 10x18x34 --warmup 1 --iters 4 -o " + killed).status, 0);
  const Results newer = read_results(killed);
  std::filesystem::rename(killed, path_ + ".partial");
  ASSERT_EQ(run_tool("bench gemm --device cpu --shape 11x19x35 " + kBrief + "-o " + path_).status,
            0);
  Results all = read_results(path_);
  ASSERT_EQ(all.records.size(), 4u);
  all.records.pop_back();
  EXPECT_EQ(all.records, newer.records) << "of a case the newest row counts";
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST(ToolShards, FillOneFile) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string all = kTwo + "--shape 10x18x34 " + kBrief + "--num-shards 2 -o " + path;
  const Outcome odd = run_tool(all + " --shard-id 1");
  EXPECT_EQ(odd.status, 0) << odd.err;
  ASSERT_EQ(read_results(path).records.size(), 1u);
  EXPECT_EQ(read_results(path).records[0].at("TestID"), "2");
  ASSERT_EQ(run_tool(all + " --shard-id 0").status, 0);
  const Results results = read_results(path);
  ASSERT_EQ(results.records.size(), 3u);
  EXPECT_EQ(results.records[0].at("TestID"), "1") << "in the order of the cases";
  EXPECT_EQ(results.records[1].at("TestID"), "2");
}

TEST(ToolQuantize, IsTakenUpToo) {
  const Folder folder;
  const std::string command =
      "bench quantize --device cpu --shape 64x256 --warmup 1 --iters 5 -o " + folder.file("q.csv");
  ASSERT_EQ(run_tool(command).status, 0);
  const Outcome again = run_tool(command);
  EXPECT_TRUE(says(again, "2 of 2 cases already in ")) << again.out;
  EXPECT_TRUE(says(again, "Score: ")) << again.out;
}

}  // namespace
}  // namespace octet::tool
