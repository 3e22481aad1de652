// octet tune: from problems and logs to what the library chooses.
#include "tune_tool.hpp"

namespace octet::tool {
namespace {

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
      << "octet call: gemm --shape 8x16x64 --a bf16 --b bf16 --out bf16 --device c\n"
         "octet call: gemm --shape 8x16x64 --a bf16:1x --b bf16 --out bf16 --device cpu\n"
         "octet call: gemm --shaoctet call: gemm --shape 8x16x32 --a bf16 --b bf16 --out bf16 "
         "--device cpu\r\noctet call: gemm --shape 8x1";
  const Outcome torn = tune("gemm " + kQuick + "--from-log " + folder_.file("torn.log") + " ");
  EXPECT_EQ(torn.status, 0) << torn.err;
  EXPECT_TRUE(has(torn.out, "1 problem tuned")) << torn.out;
  EXPECT_EQ(lines_with(torn.err, "torn.log: skipped: "), 3u) << torn.err;
  const Outcome shape = tune("gemm --shape 8x16x32 --from-log " + folder_.file("job.log") + " ");
  EXPECT_EQ(shape.status, 2);
  EXPECT_TRUE(has(shape.err, "--shape does not go with --from-log, whose calls say what is tuned"))
      << shape.err;
  const Outcome left =
      tune("gemm --max-multiprocessors 64 --from-log " + folder_.file("job.log") + " ");
  EXPECT_EQ(left.status, 2);
  EXPECT_TRUE(has(left.err, "--max-multiprocessors does not go with --from-log")) << left.err;
  std::ofstream(folder_.file("other.log")) << "nothing\n";
  const Outcome none = tune("gemm --from-log " + folder_.file("other.log") + " ");
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(
      has(none.err, "no line has a call of gemm; OCTET_LOG=calls prints \"octet call: gemm ...\""))
      << none.err;
}

// A log says which groups and sequences there were, but not how long they are.
TEST_F(ToolTune, TheSpreadOfGroupsAndSequencesIsGivenBesideALog) {
  const auto log_of = [&](const std::string& check) {
    const std::string log = folder_.file("job.log");
    std::ofstream(log)
        << run_tool("check " + check + " --device cpu --threads 1", "OCTET_LOG=calls").err;
    return "--threads 1 " + kQuick + "--from-log " + log + " ";
  };
  const std::string groups = "grouped-gemm " + log_of("grouped-gemm --groups 3 --shape 50x40x130");
  const Outcome skewed = tune(groups + "--group-sizes skewed ");
  EXPECT_EQ(skewed.status, 0) << skewed.err;
  EXPECT_TRUE(has(skewed.out, "3 problems tuned")) << skewed.out;
  const Outcome sizes = tune(groups + "--again --group-sizes 1,2 ");
  EXPECT_EQ(sizes.status, 1);
  EXPECT_TRUE(has(sizes.err, "2 sizes were given for 3 groups")) << sizes.err;
  EXPECT_TRUE(has(tune(groups + "--group-sizes some ").err, "got \"some\""));
  EXPECT_TRUE(has(tune(groups + "--groups 4 ").err, "--groups does not go with --from-log"));
  const std::string sequences =
      "attention " + log_of("attention --lengths 7,40 --heads 2 --head-dim 16");
  const Outcome lengths = tune(sequences + "--lengths 20,27 ");
  EXPECT_EQ(lengths.status, 0) << lengths.err;
  EXPECT_TRUE(has(lengths.out, "2 problems tuned")) << lengths.out;
  EXPECT_TRUE(has(tune(sequences + "--causal ").err, "--causal does not go with --from-log"));
  EXPECT_TRUE(has(tune(sequences + "--seq 40 ").err, "--seq does not go with --from-log"));
}

// Where memory ends Linux ends the process: so much is not even tried.
TEST_F(ToolTune, AProblemTooLargeForTheMemoryFailsByItself) {
  const std::string rest = " --a bf16 --b bf16 --out bf16 --device cpu\n";
  std::ofstream(folder_.file("job.log")) << "octet call: gemm --shape 2000000x2000000x8" << rest
                                         << "octet call: gemm --shape 8x16x32" << rest;
  const Outcome outcome =
      tune("gemm --threads 1 " + kQuick + "--from-log " + folder_.file("job.log") + " ");
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_TRUE(has(outcome.err,
                  "2000000x8" + rest.substr(0, rest.size() - 1) + ": bench: the workload takes "))
      << outcome.err;
  EXPECT_TRUE(has(outcome.out, "1 problem tuned, 0 already in the store, 1 that cannot be run"))
      << outcome.out;
}

TEST_F(ToolTune, AnInterruptedRunSaysWhatIsKeptAndHowToGoOn) {
  const Outcome outcome = run_tool(
      "tune gemm --device cpu --threads 1 --shape 4096x4096x4096 --seconds-per-candidate 100 " +
          store(),
      "timeout --signal=INT 2");
  EXPECT_TRUE(
      has(outcome.err, "octet tune: interrupted after 0 of 2 problems; what is tuned is in " +
                           path_ + ", rerun the same command to continue\n"))
      << outcome.err;
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
  const std::string help = run_tool("tune gemm --help").out;
  EXPECT_EQ(lines_with(help, "--backend"), 0u) << "it is always refused\n" << help;
  EXPECT_EQ(lines_with(help, "--quantize-backend"), 0u) << help;
  const Outcome zero = tune("gemm --seconds-per-candidate 0 " + kShape);
  EXPECT_EQ(zero.status, 2);
  EXPECT_TRUE(has(zero.err, "--seconds-per-candidate must be more than 0, got 0")) << zero.err;
  const Outcome allowed = tune("gemm --allow cpu_smid " + kShape);
  EXPECT_EQ(allowed.status, 2);
  EXPECT_TRUE(has(allowed.err, "--allow must name an implementation of gemm: ")) << allowed.err;
  EXPECT_TRUE(has(allowed.err, "got \"cpu_smid\"")) << allowed.err;
  EXPECT_TRUE(has(tune("show 7 ").err, "has no entry 7; octet tune list prints the entries"));
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
