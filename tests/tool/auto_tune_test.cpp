// OCTET_AUTO_TUNE=1: octet bench tunes what it is about to time.
#include "results.hpp"
#include "tune_tool.hpp"

namespace octet::tool {
namespace {

class ToolAutoTune : public ToolTune {};

TEST_F(ToolAutoTune, BenchTunesWhatIsMissingWhereItIsAsked) {
  const std::string bench = "bench gemm --warmup 1 --iters 2 " + kShape;
  const std::string environment = "OCTET_TUNING_STORE=" + path_ + " OCTET_AUTO_TUNE=";
  const Outcome first = run_tool(bench, environment + "1");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(lines_with(first.err, "octet: tuning gemm --shape"), 3u) << first.err;
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 3u);
  const Outcome second = run_tool(bench, environment + "1 OCTET_LOG=dispatch");
  EXPECT_EQ(lines_with(second.err, "octet: tuning"), 0u);
  EXPECT_TRUE(has(second.err, "(by the tuning table " + folder_.file("state/tuning.table") + ")"))
      << second.err;
  // A table that lacks what a killed process had stored.
  std::ofstream(folder_.file("state/tuning.table")) << "octet tuning table 2, entries: 0\n";
  EXPECT_TRUE(has(run_tool(bench, environment + "1 OCTET_LOG=dispatch").err,
                  "(by the tuning table " + folder_.file("state/tuning.table") + ")"));
  EXPECT_EQ(lines_with(run_tool(bench, environment + "0").err, "tuning"), 0u);
  const Outcome huge = run_tool(bench + "--shape 4000000000x4000000x128", environment + "1");
  EXPECT_TRUE(has(huge.err, "octet: not tuned: gemm --shape 4000000000x")) << huge.err;
  EXPECT_TRUE(has(huge.out, "1 PASS, 0 FAIL, 1 ERROR")) << "the other is timed\n" << huge.out;
  EXPECT_TRUE(
      has(run_tool(bench, environment + "yes").err, "OCTET_AUTO_TUNE must be 0 or 1, got \"yes\""));
  const Outcome unwritable = run_tool(bench, "OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=/proc/t.sqlite");
  EXPECT_EQ(unwritable.status, 0) << "the benchmark runs without";
  EXPECT_TRUE(has(unwritable.err, "octet: not tuned: /proc/t.sqlite")) << unwritable.err;
  const Outcome both = run_tool(bench, environment + "1 OCTET_TUNING_TABLE=job.table");
  EXPECT_EQ(both.status, 2);
  EXPECT_TRUE(has(both.err, "OCTET_TUNING_TABLE=job.table names another one; unset one of them"))
      << both.err;
}

// Whether something is missing or not.
TEST_F(ToolAutoTune, AForcedImplementationIsNotTuned) {
  const std::string bench = "bench gemm --warmup 1 --iters 2 " + kOtherShape;
  const std::string environment = "OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=" + path_;
  const std::string end = " forces an implementation, which no tuning table changes\n";
  for (int i = 0; i < 2; ++i) {
    const Outcome variable = run_tool(bench, environment + " OCTET_GEMM_BACKEND=cpu_reference");
    EXPECT_EQ(variable.status, 0) << variable.err;
    EXPECT_EQ(variable.err, "octet: not tuned: OCTET_GEMM_BACKEND=cpu_reference" + end);
    const Outcome option = run_tool(bench + "--backend cpu_reference", environment);
    EXPECT_EQ(option.status, 0) << option.err;
    EXPECT_EQ(option.err, "octet: not tuned: --backend cpu_reference" + end);
    const Outcome cast = run_tool(bench, environment + " OCTET_QUANTIZE_BACKEND=cpu_reference");
    EXPECT_EQ(lines_with(cast.err, "octet: tuning"), i == 0 ? 3u : 0u) << cast.err;
  }
}

// Only what this run times, while it has time, and into a file that it can write.
TEST_F(ToolAutoTune, TunesNoMoreThanTheRunTimes) {
  const std::string bench =
      "bench gemm --device cpu --threads 1 --warmup 1 --iters 2 --shape 8x16x32 --shape 9x17x33 ";
  const std::string environment = "OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=" + path_;
  const Outcome unwritable = run_tool(bench + "-o /proc/x.csv", environment);
  EXPECT_EQ(unwritable.status, 2);
  EXPECT_TRUE(has(unwritable.err, "-o /proc/x.csv: ")) << unwritable.err;
  EXPECT_EQ(lines_with(unwritable.err, "octet: tuning"), 0u) << unwritable.err;
  const Outcome late = run_tool(bench + "--max-seconds 0", environment);
  EXPECT_EQ(late.err, "octet: 6 problems not tuned (--max-seconds reached)\n");
  const Outcome shard = run_tool(bench + "--num-shards 2 --shard-id 1", environment);
  EXPECT_EQ(shard.status, 0) << shard.err;
  EXPECT_EQ(lines_with(shard.err, "octet: tuning gemm --shape"), 3u) << shard.err;
  EXPECT_EQ(lines_with(shard.err, "octet: tuning gemm --shape 8x"), 0u) << shard.err;
}

// A table is how a case was run, not another case.
TEST_F(ToolAutoTune, ARowOfBeforeIsReplaced) {
  const std::string file = folder_.file("x.csv");
  const std::string bench = "bench gemm --warmup 1 --iters 2 " + kOtherShape + "-o " + file;
  ASSERT_EQ(run_tool(bench).status, 0);
  const std::string environment = "OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=" + path_;
  const Outcome tuned = run_tool(bench, environment);
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_TRUE(
      has(tuned.out, "replaced 1 row measured with other settings (tuning table none, now " +
                         folder_.file("state/tuning.table")))
      << tuned.out;
  EXPECT_EQ(read_results(file).records.size(), 1u);
  EXPECT_TRUE(has(run_tool(bench, environment).out, "1 of 1 case already in "));
}

TEST_F(ToolAutoTune, ASuiteKnowsTheRowsOfItsTasks) {
  std::ofstream(folder_.file("tasks.yaml"))
      << "groups:\n  g:\n    tasks:\n      - {label: a, op: gemm, options: {shape: [8x16x32, "
         "9x17x33], threads: 1, warmup: 1, iters: 2}}\n";
  const std::string suite =
      "bench suite " + folder_.file("tasks.yaml") + " -n 0 -d " + folder_.file("out");
  const std::string environment = "OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=" + path_;
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = run_tool(suite, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(has(outcome.out, "2 PASS, 0 FAIL, 0 ERROR")) << outcome.out;
  }
  const Results rows = read_results(folder_.file("out/a.csv"));
  ASSERT_EQ(rows.records.size(), 2u);
  EXPECT_TRUE(has(rows.records[0].at("Command"), "OCTET_TUNING_TABLE="))
      << rows.records[0].at("Command");
}

}  // namespace
}  // namespace octet::tool
