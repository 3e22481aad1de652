// octet tune: from problems to a store, a table and what the library chooses; many writers, and what may go wrong.
#include "background_tool.hpp"
#include "run_tool.hpp"

#include "dispatch/machine.hpp"
#include "tool/tune/tuning_store.hpp"

#include <octet/octet.hpp>

#include <sys/stat.h>

namespace octet::tool {
namespace {

const std::string kShape = "--device cpu --threads 1 --shape 40x600x256 ";
const std::string kQuick = "--seconds-per-candidate 0.01 ";

class ToolTune : public testing::Test {
 protected:
  void SetUp() override {
    if (!this_machine(kCpu, 1).avx2) GTEST_SKIP() << "this CPU has no AVX2: nothing to tune";
  }
  std::string store() const { return "--store " + path_ + " "; }
  Outcome tune(const std::string& arguments) const {
    return run_tool("tune " + arguments + store() + "--wide");
  }
  std::string table() const { return read_file(folder_.file("state/tuning.table")); }

  Folder folder_;
  std::string path_ = folder_.file("state/tuning.sqlite");
};

TEST_F(ToolTune, KeepsTheThreeProductsOfALayer) {
  EXPECT_TRUE(has(tune("list ").out, "no problem is tuned in " + path_));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "asking makes no store";
  const Outcome first = tune("gemm " + kShape + kQuick);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(has(first.out, "3 problems tuned, 0 already in the store")) << first.out;
  EXPECT_TRUE(has(first.out, "gemm --shape 40x600x256 --a e4m3:1x128 --b e4m3:128x128 --out bf16"));
  EXPECT_TRUE(has(first.out, "gemm --shape 600x256x40 --a e4m3:1x128 --b e4m3:1x128 --out bf16"));
  EXPECT_EQ(lines_with(table(), "\tcpu_simd\tavx"), 3u) << table();
  const Outcome again = tune("gemm " + kShape + kQuick);
  EXPECT_TRUE(has(again.out, "0 problems tuned, 3 already in the store")) << again.out;
  EXPECT_TRUE(has(again.out, "x in the mean over 3 problems, at most ")) << again.out;
  const Outcome list = tune("list ");
  EXPECT_EQ(lines_with(list.out, "fresh"), 3u) << "of one thread, listed with all\n" << list.out;
  const Outcome show = tune("show 1 ");
  EXPECT_EQ(show.status, 0) << show.err;
  EXPECT_EQ(lines_with(show.out, "default"), 1u) << show.out;
  EXPECT_GE(lines_with(show.out, "cpu_simd"), 3u) << "every candidate\n" << show.out;
  const Outcome verify = tune("verify ");
  EXPECT_EQ(verify.status, 0) << verify.out;
  EXPECT_EQ(lines_with(verify.out, "PASS"), 3u) << verify.out;
  EXPECT_TRUE(has(verify.out, "3 entries passed, 0 failed\n")) << verify.out;
}

// The choice follows the table, and the default comes back without it.
TEST_F(ToolTune, BenchRunsWhatTheTableHas) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  std::string text = table();
  // Another configuration than the default for the forward product, whatever was fastest.
  const Outcome show = tune("show 1 ");
  std::string usual, other;
  std::istringstream lines(show.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find("avx"), end = line.find("threads=1");
    if (begin == std::string::npos || end == std::string::npos) continue;
    std::string& name = has(line, "default") ? usual : other;
    name = line.substr(begin, end + std::string("threads=1").size() - begin);
  }
  ASSERT_FALSE(usual.empty() || other.empty()) << show.out;
  const std::size_t forward = text.find("gemm --shape 40x600x256");
  const std::size_t at = text.find("\tavx", forward) + 1;
  text.replace(at, text.find('\n', at) - at, other);
  std::ofstream(folder_.file("job.table")) << text;
  const std::string bench = "bench gemm --prequantized --warmup 1 --iters 2 " + kShape + "-o ";
  const std::string environment = "OCTET_TUNING_TABLE=" + folder_.file("job.table");
  ASSERT_EQ(run_tool(bench + folder_.file("tuned.csv"), environment).status, 0);
  ASSERT_EQ(run_tool(bench + folder_.file("usual.csv")).status, 0);
  const std::string tuned = read_file(folder_.file("tuned.csv"));
  EXPECT_TRUE(has(tuned, other)) << tuned;
  EXPECT_TRUE(has(tuned, environment + " octet bench")) << "a setting of the row";
  EXPECT_TRUE(has(read_file(folder_.file("usual.csv")), usual));
  const std::string log =
      run_tool(bench + folder_.file("log.csv"), environment + " OCTET_LOG=dispatch").err;
  EXPECT_TRUE(has(log, "chosen: cpu_simd \"" + other + "\" (by the tuning table " +
                           folder_.file("job.table") + ")"))
      << log;
  EXPECT_TRUE(has(run_tool(bench + folder_.file("forced.csv"),
                           environment + " OCTET_GEMM_BACKEND=cpu_reference OCTET_LOG=dispatch")
                      .err,
                  "forced by OCTET_GEMM_BACKEND"));
}

TEST_F(ToolTune, AMissingTableIsAnErrorAndNoSilentDefault) {
  const Outcome bench =
      run_tool("bench gemm " + kShape, "OCTET_TUNING_TABLE=" + folder_.file("no"));
  EXPECT_NE(bench.status, 0);
  EXPECT_TRUE(has(bench.err, "tuning table " + folder_.file("no") + ": there is no such file"))
      << bench.err;
}

TEST_F(ToolTune, ReadsTheCallsOfALog) {
  const Outcome job =
      run_tool("check gated-mlp --device cpu --threads 1 --shape 8x40x24", "OCTET_LOG=calls");
  EXPECT_GT(lines_with(job.err, "octet call: gemm --shape 8x"), 0u) << job.err;
  std::ofstream(folder_.file("job.log")) << "epoch 1\n[rank0] " << job.err;
  const Outcome tuned = tune("gemm --device cpu --threads 1 " + kQuick + "--from-log " +
                             folder_.file("job.log") + " ");
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_TRUE(has(tuned.out, "gemm --shape 8x80x24")) << tuned.out;
  // Windows ends, a line that another process began, and one that was cut.
  std::ofstream(folder_.file("torn.log"))
      << "octet call: gemm --shaoctet call: gemm --shape 8x16x32 --a bf16 --b bf16 --out bf16 "
         "--device cpu\r\noctet call: gemm --shape 8x1";
  const Outcome torn = tune("gemm " + kQuick + "--from-log " + folder_.file("torn.log") + " ");
  EXPECT_EQ(torn.status, 0) << torn.err;
  EXPECT_TRUE(has(torn.out, "1 problem tuned")) << torn.out;
  EXPECT_TRUE(has(torn.err, "torn.log: skipped: ")) << torn.err;
  const Outcome shape = tune("gemm --shape 8x16x32 --from-log " + folder_.file("job.log") + " ");
  EXPECT_EQ(shape.status, 2);
  EXPECT_TRUE(has(shape.err, "--shape does not go with --from-log, whose calls say what is tuned"))
      << shape.err;
  std::ofstream(folder_.file("other.log")) << "nothing\n";
  const Outcome none = tune("gemm --from-log " + folder_.file("other.log") + " ");
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(
      has(none.err, "no line has a call of gemm; OCTET_LOG=calls prints \"octet call: gemm ...\""))
      << none.err;
}

TEST_F(ToolTune, TunesGroupsAndAttention) {
  const Outcome groups = tune(
      "grouped-gemm --device cpu --threads 1 --groups 3 --group-sizes skewed --shape 50x40x130 " +
      kQuick);
  EXPECT_EQ(groups.status, 0) << groups.err;
  EXPECT_TRUE(has(groups.out, "3 problems tuned")) << groups.out;
  EXPECT_EQ(lines_with(tune("list ").out, "fresh"), 3u) << "whatever the operator's name";
  const Outcome attention = tune(
      "attention --device cpu --threads 1 --batch 1 --seq 40 --heads 2 --head-dim 16 --causal " +
      kQuick);
  EXPECT_EQ(attention.status, 0) << attention.err;
  EXPECT_TRUE(has(attention.out, "2 problems tuned")) << attention.out;
  EXPECT_EQ(lines_with(table(), ", backward\t"), 1u) << table();
}

// A table that names another implementation than the default's is what the gates of attention run with.
TEST_F(ToolTune, TheGatesOfAttentionRunWhatTheTableHas) {
  const std::string shape =
      "attention --device cpu --threads 1 --batch 1 --seq 40 --heads 2 --head-dim 16 --causal ";
  ASSERT_EQ(tune(shape + kQuick).status, 0);
  std::string text = table();
  for (std::size_t at = 0; (at = text.find("\tcpu_simd\t", at)) != std::string::npos;) {
    const std::size_t end = text.find('\n', at);
    text.replace(at, end - at, "\tcpu_reference\tscalar");
  }
  std::ofstream(folder_.file("job.table")) << text;
  const Outcome check = run_tool(
      "check " + shape, "OCTET_LOG=dispatch OCTET_TUNING_TABLE=" + folder_.file("job.table"));
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_GE(lines_with(check.err, "octet dispatch: attention"), 2u) << check.err;
  EXPECT_EQ(lines_with(check.err, "chosen: cpu_reference \"scalar\" (by the tuning table"),
            lines_with(check.err, "octet dispatch: attention"))
      << check.err;
}

// Only CSV tables, notes and stores of other names are safe from octet tune if it asks before it writes.
TEST_F(ToolTune, TheTableOverwritesNothingElse) {
  std::ofstream(folder_.file("job.table")) << "a dining table\n";
  const Outcome notes = run_tool("tune gemm " + kShape + "--store " + folder_.file("job.sqlite"));
  EXPECT_EQ(notes.status, 2) << notes.out;
  EXPECT_TRUE(has(notes.err, "is not written over it: move it away, or give another store"))
      << notes.err;
  EXPECT_EQ(read_file(folder_.file("job.table")), "a dining table\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.file("job.sqlite")));
  const Outcome table = run_tool("tune gemm " + kShape + "--store " + folder_.file("job.table"));
  EXPECT_EQ(table.status, 2);
  EXPECT_TRUE(has(table.err, "a tuning store is an SQLite file with a name such as job.sqlite"))
      << table.err;
  EXPECT_EQ(table_path("runs/job.sqlite"), "runs/job.table");
  EXPECT_EQ(table_path("runs/job.v2"), "runs/job.v2.table") << "beside that of job.v1";
  const Outcome bare = run_tool("tune gemm " + kShape + "--store " + folder_.file("job"));
  EXPECT_TRUE(has(bare.err, "an SQLite file with a name such as job.sqlite")) << bare.err;
}

// A table under version control is the store's, where the store was lost or a colleague added entries.
TEST_F(ToolTune, TakesInWhatOnlyTheTableHas) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  const std::string kept = table();
  std::filesystem::remove(path_);
  EXPECT_EQ(lines_with(tune("list ").out, "fresh"), 3u) << "before it has a store, too";
  EXPECT_EQ(run_tool("tune export - " + store()).out, kept);
  const Outcome other = tune("gemm --device cpu --threads 1 --shape 8x16x32 " + kQuick);
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 6u) << table();
  EXPECT_EQ(lines_with(tune("list ").out, "imported"), 3u);
  // Of two choices the store's stays, and that is said.
  std::string text = table();
  text.replace(text.find("\tcpu_simd\t"), 10, "\tcpu_else\t");
  std::ofstream(folder_.file("state/tuning.table")) << text;
  const Outcome again = tune("gemm --device cpu --threads 1 --shape 8x16x32 " + kQuick);
  EXPECT_TRUE(has(again.err, "had another choice for 1 problem than its store")) << again.err;
  EXPECT_EQ(lines_with(table(), "cpu_else"), 0u);
  std::filesystem::remove(path_);
  EXPECT_TRUE(has(tune("clear ").out, "6 entries removed"));
  EXPECT_EQ(lines_with(tune("list ").out, "gemm --shape"), 0u) << "what was removed stays removed";
}

// Entries of other drivers and kernels stay beside: two machines may share a store.
TEST_F(ToolTune, StaleEntriesStayUntilTheyAreCleared) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  std::string text = table();
  const std::size_t kernels = text.rfind('\t', text.find("\tcpu_simd\t") - 1) + 1;
  text.replace(kernels, 12, "000000000000");
  std::ofstream(folder_.file("old.table")) << text;
  ASSERT_EQ(tune("import " + folder_.file("old.table") + " ").status, 0);
  const Outcome list = tune("list ");
  EXPECT_EQ(lines_with(list.out, "stale: kernels"), 1u) << list.out;
  EXPECT_EQ(lines_with(list.out, "fresh"), 3u) << list.out;
  EXPECT_TRUE(
      has(tune("verify ").out, "3 entries passed, 0 failed, 1 not for this machine as it is"));
  EXPECT_TRUE(has(tune("clear --stale ").out, "1 entry removed"));
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 3u);
}

TEST_F(ToolTune, TablesTravelBetweenStores) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  const std::string file = folder_.file("job.table");
  ASSERT_EQ(tune("export " + file + " ").status, 0);
  EXPECT_EQ(read_file(file), table());
  EXPECT_EQ(run_tool("tune export - " + store()).out, table());
  const std::string other = "--store " + folder_.file("other.sqlite") + " ";
  const Outcome imported = run_tool("tune import " + file + " " + other);
  EXPECT_EQ(imported.status, 0) << imported.err;
  EXPECT_EQ(read_file(folder_.file("other.table")), table()) << "equal choices";
  EXPECT_EQ(run_tool("tune diff " + file + " " + other).status, 0);
  EXPECT_EQ(run_tool("tune diff " + path_ + " " + folder_.file("other.sqlite")).status, 0);
  EXPECT_EQ(lines_with(run_tool("tune list --wide " + other).out, "imported"), 3u);

  const std::string before = tune("list ").out;
  EXPECT_TRUE(has(tune("import " + file + " ").out, "0 new, 0 in the place of others, 3 already"));
  EXPECT_EQ(tune("list ").out, before) << "what was measured is still known";

  std::string text = table();
  text.replace(text.find("\tcpu_simd\t"), 10, "\tcpu_else\t");
  std::ofstream(file) << text;
  const Outcome diff = run_tool("tune diff " + file + " " + path_ + " --wide");
  EXPECT_EQ(diff.status, 1);
  EXPECT_EQ(lines_with(diff.out, "cpu_else"), 1u) << diff.out;
  EXPECT_TRUE(has(diff.out, "1 entry of 3 and 3 differ")) << diff.out;
  // An entry that the library cannot run is not taken for an answer.
  ASSERT_EQ(tune("import " + file + " ").status, 0);
  EXPECT_TRUE(has(tune("gemm " + kShape + kQuick).out, "1 problem tuned, 2 already in the store"));
}

TEST_F(ToolTune, ClearsTheStoreAndItsTable) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  EXPECT_TRUE(has(run_tool("tune clear --stale " + store(), "OCTET_NUM_THREADS=1").out,
                  "0 entries removed"));
  EXPECT_TRUE(has(tune("clear ").out, "3 entries removed"));
  EXPECT_EQ(table(), "octet tuning table 2, entries: 0\n");
  EXPECT_TRUE(has(run_tool("tune clear --store " + folder_.file("none.sqlite")).out,
                  "no problem is tuned"));
}

TEST_F(ToolTune, ManyProcessesWriteOneStore) {
  std::vector<std::unique_ptr<BackgroundTool>> tools;
  for (int i = 0; i < 3; ++i) {
    tools.push_back(std::make_unique<BackgroundTool>(
        std::vector<std::string>{"tune", "gemm", "--device", "cpu", "--threads", "1", "--shape",
                                 "8x" + std::to_string(16 + i) + "x32", "--seconds-per-candidate",
                                 "0.01", "--store", path_}));
  }
  for (const auto& one : tools) {
    EXPECT_TRUE(wait_until([&] { return has_ended(one->pid()); }));
    EXPECT_EQ(one->end(0), 0);
  }
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 9u) << table();
  EXPECT_EQ(lines_with(tune("list ").out, "gemm --shape"), 9u);
}

// What was stored stays, and the next run goes on with the rest.
TEST_F(ToolTune, AKilledRunLosesNothingItHadStored) {
  const std::vector<std::string> arguments{"tune",
                                           "gemm",
                                           "--device",
                                           "cpu",
                                           "--threads",
                                           "1",
                                           "--shape",
                                           "8x16x32",
                                           "--shape",
                                           "2048x2048x2048",
                                           "--seconds-per-candidate",
                                           "1",
                                           "--store",
                                           path_};
  {
    BackgroundTool tool(arguments);
    EXPECT_TRUE(wait_until([&] { return lines_with(table(), "gemm --shape") >= 1; }));
    tool.end(SIGKILL);
  }
  const std::size_t stored = lines_with(tune("list ").out, "gemm --shape");
  EXPECT_GE(stored, 1u);
  const Outcome rest = tune("gemm --device cpu --threads 1 --shape 8x16x32 " + kQuick);
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 3u) << table();
}

TEST_F(ToolTune, WhatIsNoStoreIsRefusedAndKept) {
  std::ofstream(folder_.file("notes.txt")) << "my notes\n";
  for (const std::string command : {"list ", "clear ", "gemm --device cpu --shape 8x16x32 "}) {
    const Outcome outcome = run_tool("tune " + command + "--store " + folder_.file("notes.txt"));
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_TRUE(has(outcome.err, folder_.file("notes.txt") + ": file is not a database"))
        << outcome.err;
  }
  EXPECT_EQ(read_file(folder_.file("notes.txt")), "my notes\n");
  const Outcome folder = run_tool("tune list --store " + folder_.path().string());
  EXPECT_TRUE(has(folder.err, "is a folder, wanted a tuning store of octet")) << folder.err;
  EXPECT_EQ(run_tool("tune export " + folder_.file("notes.txt") + " " + store()).status, 2);
  EXPECT_EQ(read_file(folder_.file("notes.txt")), "my notes\n");
}

TEST_F(ToolTune, AStoreThatCannotBeWrittenIsRefusedBeforeAnythingIsMeasured) {
  const Outcome outcome = run_tool("tune gemm " + kShape + "--store /proc/tuning.sqlite");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "/proc/tuning.sqlite: unable to open database file")) << outcome.err;
}

TEST_F(ToolTune, RefusesWhatWouldNotBeRun) {
  const Outcome forced =
      run_tool("tune gemm " + kShape + store(), "OCTET_GEMM_BACKEND=cpu_reference");
  EXPECT_EQ(forced.status, 2);
  EXPECT_TRUE(has(forced.err,
                  "OCTET_GEMM_BACKEND=cpu_reference forces an implementation, which no tuning "
                  "table changes; unset it to tune"))
      << forced.err;
  const Outcome backend = tune("gemm --backend cpu_simd " + kShape);
  EXPECT_TRUE(has(backend.err, "--allow NAME lets it choose one whose bits differ")) << backend.err;
  const Outcome allowed = tune("gemm --allow cpu_smid " + kShape);
  EXPECT_EQ(allowed.status, 2);
  EXPECT_TRUE(has(allowed.err, "--allow must name an implementation of gemm: ")) << allowed.err;
  EXPECT_TRUE(has(allowed.err, "got \"cpu_smid\"")) << allowed.err;
  EXPECT_TRUE(has(tune("show 7 ").err, "has no entry 7; octet tune list prints the entries"));
}

TEST_F(ToolTune, BenchTunesWhatIsMissingWhereItIsAsked) {
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

// The table of OCTET_TUNING_TABLE may be what octet tune is to write.
TEST_F(ToolTune, TunesWithATableThatIsNotThereYet) {
  const Outcome outcome = run_tool("tune gemm " + kShape + kQuick + store(),
                                   "OCTET_TUNING_TABLE=" + folder_.file("state/tuning.table"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(lines_with(table(), "gemm --shape"), 3u);
}

}  // namespace
}  // namespace octet::tool
