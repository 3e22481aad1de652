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
  EXPECT_EQ(
      lines_with(run_tool(bench + "--backend cpu_reference", environment + "1").err, "tuning"), 0u)
      << "nothing that runs would change";
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

}  // namespace
}  // namespace octet::tool
