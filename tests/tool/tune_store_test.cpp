// The store and the table of octet tune: many writers, and what may go wrong.
#include "tune_tool.hpp"

#include "tool/tune/tuning_store.hpp"

#include <algorithm>
#include <filesystem>

namespace octet::tool {
namespace {

class ToolTuneStore : public ToolTune {};

// Only CSV tables, notes and stores of other names are safe from octet tune if it asks before it writes.
TEST_F(ToolTuneStore, TheTableOverwritesNothingElse) {
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
TEST_F(ToolTuneStore, TakesInWhatOnlyTheTableHas) {
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
TEST_F(ToolTuneStore, StaleEntriesStayUntilTheyAreCleared) {
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

TEST_F(ToolTuneStore, TablesTravelBetweenStores) {
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
  const std::string list = tune("list ").out;
  EXPECT_EQ(lines_with(list, "cannot run"), 1u) << list;
  EXPECT_EQ(lines_with(list, "fresh"), 2u) << list;
  EXPECT_TRUE(has(tune("verify ").out, "2 entries passed, 1 failed\n"));
  EXPECT_TRUE(has(tune("gemm " + kShape + kQuick).out, "1 problem tuned, 2 already in the store"));
}

// What was edited in the store's own table is what is asked for.
TEST_F(ToolTuneStore, ImportsItsOwnTableWithoutAWarning) {
  ASSERT_EQ(tune("gemm " + kOtherShape + kQuick).status, 0);
  std::string text = table();
  text.replace(text.find("\tcpu_simd\t"), 10, "\tcpu_else\t");
  std::ofstream(folder_.file("state/tuning.table")) << text;
  const Outcome imported = tune("import " + folder_.file("state/tuning.table") + " ");
  EXPECT_EQ(imported.status, 0);
  EXPECT_EQ(imported.err, "");
  EXPECT_TRUE(has(imported.out, "0 new, 1 in the place of others, 2 already there"))
      << imported.out;
  EXPECT_EQ(table(), text);
}

// A user's kernel may be of a product, too.
TEST_F(ToolTuneStore, KernelsOfUsersAreNeverStale) {
  ASSERT_EQ(tune("gemm " + kOtherShape + kQuick).status, 0);
  const std::string text = table();
  const std::size_t first = text.find('\n') + 1, device = text.find('\t', first) + 1;
  std::ofstream(folder_.file("own.table"))
      << "octet tuning table 2, entries: 1\ngemm of mine --shape 1x2x3\t"
      << text.substr(device, text.find('\t', device) - device) << "\t-\tv1\tkernel\tblock=8\n";
  ASSERT_EQ(tune("import " + folder_.file("own.table") + " ").status, 0);
  EXPECT_EQ(lines_with(tune("list ").out, "not octet's"), 1u);
  EXPECT_TRUE(has(tune("clear --stale ").out, "0 entries removed"));
  EXPECT_TRUE(has(tune("verify ").out, "3 entries passed, 0 failed, 1 not for this machine"));
}

TEST_F(ToolTuneStore, AnEmptyStoreHasWhatItsTableHas) {
  ASSERT_EQ(tune("gemm " + kOtherShape + kQuick).status, 0);
  std::ofstream(path_, std::ios::trunc).close();
  EXPECT_EQ(lines_with(tune("list ").out, "fresh"), 3u);
  EXPECT_TRUE(has(tune("gemm " + kOtherShape + kQuick).out, "0 problems tuned, 3 already"));
}

TEST_F(ToolTuneStore, ADamagedStoreIsRefusedWithAWayOut) {
  ASSERT_EQ(tune("gemm " + kOtherShape + kQuick).status, 0);
  std::string bytes = read_file(path_);
  constexpr std::size_t kHeader = 100;  // of an SQLite file
  std::fill(bytes.begin() + kHeader, bytes.end(), '\xff');
  std::ofstream(path_, std::ios::binary) << bytes;
  for (const std::string& command : {std::string("list "), "gemm " + kOtherShape}) {
    const Outcome outcome = tune(command);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_TRUE(has(outcome.err,
                    path_ + ": database disk image is malformed; move it away: octet tune takes in "
                            "what the table beside it has"))
        << outcome.err;
  }
  std::filesystem::remove(path_);
  EXPECT_TRUE(has(tune("gemm " + kOtherShape + kQuick).out, "0 problems tuned, 3 already"));
}

TEST_F(ToolTuneStore, AReadOnlyStoreIsRefusedBeforeAnythingIsMeasured) {
  const auto as_user = without_root();
  if (!as_user)
    GTEST_SKIP() << "root writes everywhere, and setpriv cannot run the tool as another";
  ASSERT_EQ(tune("gemm " + kOtherShape + kQuick).status, 0);
  using std::filesystem::perms;
  constexpr perms kRead = perms(0555);
  std::filesystem::permissions(folder_.path(), perms(0755));
  std::filesystem::permissions(folder_.file("state/tuning.table"), perms(0444));
  const auto tune_as_user = [&](const std::string& arguments) {
    return run_tool("tune " + arguments + store(), *as_user);
  };
  const std::string endless = "gemm " + kShape + "--seconds-per-candidate 1000 ";
  for (const auto& [store_rights, wanted] :
       {std::pair<int, std::string>(0444, path_ + ": may not be written; "),
        {0666, path_ + ": its folder may not be written: Permission denied; "}}) {
    std::filesystem::permissions(path_, perms(store_rights));
    std::filesystem::permissions(folder_.file("state"), kRead);
    const Outcome refused = tune_as_user(endless);
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_TRUE(has(refused.err, wanted + "--store or OCTET_TUNING_STORE names another place"))
        << refused.err;
    const Outcome nothing = tune_as_user("gemm " + kOtherShape);
    EXPECT_EQ(nothing.status, 0) << nothing.err;
    EXPECT_TRUE(has(nothing.out, "0 problems tuned, 3 already in the store")) << nothing.out;
    const Outcome bench = run_tool("bench gemm --warmup 1 --iters 2 " + kShape,
                                   *as_user + " env OCTET_AUTO_TUNE=1 OCTET_TUNING_STORE=" + path_);
    EXPECT_EQ(bench.status, 0) << bench.err;
    EXPECT_TRUE(has(bench.err, "octet: not tuned: " + wanted)) << bench.err;
    std::filesystem::permissions(folder_.file("state"), perms(0755));
  }
}

TEST_F(ToolTuneStore, ClearsTheStoreAndItsTable) {
  ASSERT_EQ(tune("gemm " + kShape + kQuick).status, 0);
  EXPECT_TRUE(has(run_tool("tune clear --stale " + store(), "OCTET_NUM_THREADS=1").out,
                  "0 entries removed"));
  EXPECT_TRUE(has(tune("clear ").out, "3 entries removed"));
  EXPECT_EQ(table(), "octet tuning table 2, entries: 0\n");
  EXPECT_TRUE(has(run_tool("tune clear --store " + folder_.file("none.sqlite")).out,
                  "no problem is tuned"));
}

TEST_F(ToolTuneStore, ManyProcessesWriteOneStore) {
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
TEST_F(ToolTuneStore, AKilledRunLosesNothingItHadStored) {
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

TEST_F(ToolTuneStore, WhatIsNoStoreIsRefusedAndKept) {
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

TEST_F(ToolTuneStore, AStoreThatCannotBeWrittenIsRefusedBeforeAnythingIsMeasured) {
  const Outcome outcome = run_tool("tune gemm " + kShape + "--store /proc/tuning.sqlite");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "/proc/tuning.sqlite: unable to open database file")) << outcome.err;
}

}  // namespace
}  // namespace octet::tool
