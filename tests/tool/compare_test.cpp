// octet compare names the settings that differ and the cases that got slower or broke. It returns 1
// for those, and 2 if the settings forbid a verdict.
#include "result_files.hpp"
#include "tool/results/files.hpp"

#include "bench/report/text_table.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

namespace octet::tool {
namespace {

Outcome compare(const std::string& before, const std::string& after,
                const std::string& options = "") {
  const Folder folder;
  return run_tool("compare " + write(folder.file("old.csv"), before) + " " +
                  write(folder.file("new.csv"), after) + " " + options);
}

// The cells of the first line that begins with `start`, separated by one space.
std::string line_of(const std::string& text, const std::string& start) {
  const std::string squeezed = std::regex_replace(text, std::regex(" +"), " ");
  const std::size_t begin = ("\n" + squeezed).find("\n" + start);
  if (begin == std::string::npos) return "";
  return squeezed.substr(begin, squeezed.find('\n', begin) - begin);
}

std::vector<GemmLine> lines(std::size_t count) {
  std::vector<GemmLine> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i].n = 1024 + static_cast<int>(i);
  return result;
}

TEST(ToolCompare, NamesThreeOf84ThatAreSevenPercentSlower) {
  const std::string path = std::string(OCTET_SOURCE_DIR) + "/results/h200/dense84.csv";
  std::vector<bench::Row> rows = parse_csv(read_file(path), path);
  ASSERT_EQ(rows.size(), 85u);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) -
                                    rows[0].begin());
  };
  const auto text_of = [&] {
    std::string text;
    for (const bench::Row& row : rows) text += bench::csv_line(row);
    return text;
  };
  for (const std::size_t r : {1, 40, 84}) rows[r][column("Spread (%)")] = "1";
  const std::string before = text_of();
  for (const std::size_t r : {1, 40, 84}) {
    std::string& ms = rows[r][column("Combined Step Time (ms)")];
    std::string& rate = rows[r][column("Combined Step TFLOPS")];
    ms = std::to_string(std::stod(ms) * 1.07);
    rate = std::to_string(std::stod(rate) / 1.07);
  }
  const Outcome outcome = compare(before, text_of());
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "REGRESSION: 3 slower by more than 5 %")) << outcome.out;
  for (const std::size_t r : {1, 40, 84}) {
    EXPECT_TRUE(has_text(outcome.out, rows[r][column("Case")])) << outcome.out;
  }
  EXPECT_TRUE(has_text(outcome.out, "-6.54 %")) << outcome.out;
  EXPECT_EQ(compare(before, before).status, 0);
}

TEST(ToolCompare, AFallInsideTheSpreadIsNone) {
  std::vector<GemmLine> before = lines(4);
  std::vector<GemmLine> after = before;
  after[2].rate = 92;
  EXPECT_EQ(compare(gemm_csv(before), gemm_csv(after)).status, 1);
  before[2].spread_percent = after[2].spread_percent = 9;
  const Outcome noisy = compare(gemm_csv(before), gemm_csv(after), "--threshold 3");
  EXPECT_TRUE(has_text(noisy.out, "slower, but within the noise")) << noisy.out;
  EXPECT_TRUE(has_text(noisy.out, "the score fell"))
      << "8 % of one of 4 is beyond 1 %" << noisy.out;
  for (GemmLine& line : before) line.spread_percent = 9;
  for (GemmLine& line : after) line.spread_percent = 9;
  const Outcome quiet = compare(gemm_csv(before), gemm_csv(after));
  EXPECT_EQ(quiet.status, 0) << quiet.out;
  EXPECT_TRUE(has_text(quiet.out, "no regression")) << quiet.out;
}

TEST(ToolCompare, TheThresholdIsTheCallers) {
  std::vector<GemmLine> after = lines(20);
  after[3].rate = 93;  // the score falls by 0.4 %, inside the spread of 1 %
  EXPECT_EQ(compare(gemm_csv(lines(20)), gemm_csv(after)).status, 1);
  EXPECT_EQ(compare(gemm_csv(lines(20)), gemm_csv(after), "--threshold 8").status, 0);
}

TEST(ToolCompare, AScoreThatFallsBeyondTheNoiseIsARegression) {
  std::vector<GemmLine> after = lines(4);
  for (GemmLine& line : after) line.rate = 98;
  const Outcome outcome = compare(gemm_csv(lines(4)), gemm_csv(after));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has_text(outcome.out, "REGRESSION: the score fell\n")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "score: 100 -> 98 TFLOPS, -2.00 %")) << outcome.out;
  // Median, mean, quartiles, then how many are slower by more than 1 and 5 %, and faster.
  EXPECT_EQ(line_of(outcome.out, "step"), "step -2.00 % -2.00 % -2.00 to -2.00 % 4, 0 0, 0");
}

TEST(ToolCompare, ShowsForwardBackwardAndStep) {
  std::vector<GemmLine> after = lines(4);
  after[0].rate = 90;
  after[1].rate = 110;
  after[3].forward = 1.21;  // the forward pass of one case is 10 % faster
  const Outcome outcome = compare(gemm_csv(lines(4)), gemm_csv(after));
  EXPECT_EQ(line_of(outcome.out, "forward"), "forward +5.00 % +2.15 % -5.00 to +10.00 % 1, 1 2, 2");
  EXPECT_EQ(line_of(outcome.out, "backward"),
            "backward +0.00 % -0.25 % -5.00 to +5.00 % 1, 1 1, 1");
  EXPECT_EQ(line_of(outcome.out, "step"), "step +0.00 % -0.25 % -5.00 to +5.00 % 1, 1 1, 1");
  const Outcome casts = compare(quantize_csv({3000}), quantize_csv({3000}));
  EXPECT_EQ(line_of(casts.out, "forward"), "") << "a cast has one rate";
  EXPECT_EQ(line_of(casts.out, "step"), "step +0.00 % +0.00 % +0.00 to +0.00 % 0, 0 0, 0");
}

TEST(ToolCompare, HasALinePerModel) {
  std::vector<GemmLine> before = lines(3);
  before[2].name = "Model-B mlp";
  std::vector<GemmLine> after = before;
  after[2].rate = 150;
  const Outcome outcome = compare(gemm_csv(before), gemm_csv(after));
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(line_of(outcome.out, "Model-A"), "Model-A 100 100 +0.00 % 0 0 2");
  EXPECT_EQ(line_of(outcome.out, "Model-B"), "Model-B 100 150 +50.00 % 0 1 1");
}

TEST(ToolCompare, NamesTheBestAndTheWorst) {
  std::vector<GemmLine> after = lines(30);
  for (std::size_t i = 0; i < 20; ++i) after[i].rate = 102 + 0.1 * static_cast<double>(i);
  after[25].rate = 98;
  const Outcome outcome = compare(gemm_csv(lines(30)), gemm_csv(after));
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "slower")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "256x1049x512")) << "the worst\n" << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "256x1043x512")) << "the best\n" << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, "256x1030x512")) << "only five of 20\n" << outcome.out;
}

TEST(ToolCompare, UnitsFitTheValues) {
  std::vector<GemmLine> before = lines(2);
  for (GemmLine& line : before) line.rate = 0.0975;
  const Outcome outcome = compare(gemm_csv(before), gemm_csv(before));
  EXPECT_TRUE(has_text(outcome.out, "score: 97.5 -> 97.5 GFLOPS")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "2 cases in both")) << outcome.out;
  EXPECT_TRUE(has_text(compare(gemm_csv(lines(1)), gemm_csv(lines(1))).out, "1 case in both"));
}

TEST(ToolCompare, PassThatBecameFailIsARegression) {
  std::vector<GemmLine> after = lines(3);
  after[1].check = "FAIL";
  const Outcome outcome = compare(gemm_csv(lines(3)), gemm_csv(after));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has_text(outcome.out, "PASS -> FAIL: Model-A attn 256x1025x512")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "1 no longer PASS")) << outcome.out;
  const Outcome mended = compare(gemm_csv(after), gemm_csv(lines(3)));
  EXPECT_EQ(mended.status, 0) << mended.out;
  EXPECT_TRUE(has_text(mended.out, "FAIL -> PASS")) << mended.out;
}

TEST(ToolCompare, CasesInOnlyOneFileAreListed) {
  std::vector<GemmLine> after = lines(3);
  after.erase(after.begin());
  after.push_back({"Model-B mlp", 4096});
  const Outcome outcome = compare(gemm_csv(lines(3)), gemm_csv(after));
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "only in the old: Model-A attn 256x1024x512")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "only in the new: Model-B mlp 256x4096x512")) << outcome.out;
}

// The table is printed, there is no verdict and the status is 2, unless --any-settings is given.
void expect_no_verdict(const std::string& before, const std::string& after,
                       const std::string& difference) {
  const Outcome outcome = compare(before, after);
  EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "score: 100 -> 50 TFLOPS, -50.00 %")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "no verdict, the settings differ: " + difference))
      << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, "REGRESSION")) << outcome.out;
  const Outcome any = compare(before, after, "--any-settings");
  EXPECT_EQ(any.status, 1) << any.out;
  EXPECT_TRUE(has_text(any.out, "REGRESSION: the score fell")) << any.out;
  EXPECT_FALSE(has_text(any.out, "no verdict")) << any.out;
}

std::string replaced(std::string text, const std::string& part, const std::string& other) {
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + other.size())) {
    text.replace(at, part.size(), other);
  }
  return text;
}

std::string half_as_fast() {
  GemmLine line;
  line.rate = 50;
  return gemm_csv({line});
}

TEST(ToolCompare, OtherOptionsAreNotJudged) {
  const std::string before = gemm_csv(lines(1));
  const std::string after = half_as_fast();
  const auto with = [](const std::string& text, const std::string& options) {
    return replaced(text, "--device cuda:0", "--device cuda:0" + options);
  };
  expect_no_verdict(before, with(after, " --prequantized"),
                    "--prequantized not given, now given; ");
  expect_no_verdict(with(before, " --dw f32"), with(after, " --input f32"),
                    "--dw f32, now not given; --input not given, now f32; ");
  expect_no_verdict(before, with(after, " --cold"), "clock mode sustained, now cold; ");
  expect_no_verdict(with(before, " --baseline cublaslt"), after,
                    "--baseline cublaslt, now not given; ");
  expect_no_verdict(with(before, " --scale -0.5"), with(after, " --scale -.25"),
                    "--scale -0.5, now -.25; ");
  EXPECT_EQ(compare(before, with(before, " --iters 7 --seed 3")).status, 0);
}

TEST(ToolCompare, OtherBackendsAreNotJudged) {
  const std::string before = gemm_csv(lines(1));
  const std::string after = half_as_fast();
  expect_no_verdict(before,
                    replaced(after, "octet bench", "OCTET_GEMM_BACKEND=cublaslt octet bench"),
                    "forced backend not forced, now OCTET_GEMM_BACKEND=cublaslt; ");
  expect_no_verdict(before,
                    replaced(after, "octet bench", "OCTET_TUNING_TABLE=/a/job.table octet bench"),
                    "tuning table none, now /a/job.table; ");
  expect_no_verdict(before, replaced(after, "--device", "--backend cublaslt --device"),
                    "forced backend not forced, now --backend cublaslt; ");
  const std::string other = replaced(after, "cuda_test", "cuda_other");
  expect_no_verdict(before, other, "backend cuda_test, now cuda_other; ");
  // A backend that another commit chose by itself is judged.
  const Outcome chosen = compare(before, replaced(other, ",abc,", ",def,"));
  EXPECT_EQ(chosen.status, 1) << chosen.out;
  EXPECT_EQ(line_of(chosen.out, "backend"), "backend cuda_test cuda_other 1");
}

TEST(ToolCompare, AnotherThreadCountIsNotJudgedOnACpu) {
  const auto with_threads = [](const std::string& text, const std::string& threads) {
    return replaced(replaced(text, "Backend,Spread", "Backend,Threads,Spread"), "cuda_test,",
                    "cuda_test," + threads + ",");
  };
  const std::string before = with_threads(gemm_csv(lines(1)), "2");
  const std::string after = with_threads(half_as_fast(), "1");
  const Outcome gpu = compare(before, after);
  EXPECT_EQ(gpu.status, 1) << "the threads of the host are named, and a GPU's rows judged";
  EXPECT_EQ(line_of(gpu.out, "threads"), "threads 2 1 1");
  const auto on_cpu = [](const std::string& text) {
    return replaced(text, "1,cuda,Test GPU", "1,cpu,none");
  };
  expect_no_verdict(on_cpu(before), on_cpu(after), "threads 2, now 1; ");
}

TEST(ToolCompare, NamesEverySettingThatDiffers) {
  const std::string before = gemm_csv(lines(3));
  const std::string after =
      replaced(replaced(replaced(before, ",abc,", ",def,"), "Test CPU", "Other CPU"),
               "--device cuda:0", "--device cuda:1 --seed 3 --iters 7 --seconds-per-case 0.5");
  const Outcome outcome = compare(before, after);
  EXPECT_EQ(outcome.status, 0) << "named and judged\n" << outcome.out;
  for (const char* line :
       {"commit abc def 3", "CPU Test CPU Other CPU 3", "seed 1 3 3", "--iters not given 7 3",
        "--seconds-per-case not given 0.5 3", "--device cuda:0 cuda:1 3"}) {
    EXPECT_EQ(line_of(outcome.out, line), line) << outcome.out;
  }
  EXPECT_FALSE(has_text(compare(before, before).out, "settings"));
}

TEST(ToolCompare, EscapesControlCharactersOfFiles) {
  std::vector<GemmLine> before = lines(2);
  before[0].name = "Evil \x1b[31m\a";
  before[0].options = " --format \x1b[1m";
  std::vector<GemmLine> after = before;
  after[0].check = "FAIL";
  after[1].name = "New \x1b]0;title\a";
  for (const auto& [one, other] : {std::pair(before, after), std::pair(after, before)}) {
    const Outcome outcome = compare(gemm_csv(one), gemm_csv(other));
    EXPECT_TRUE(has_text(outcome.out, "Evil \\x1b[31m\\x07")) << outcome.out;
    for (const char control : {'\x1b', '\a'}) {
      EXPECT_EQ(outcome.out.find(control), std::string::npos) << outcome.out;
      EXPECT_EQ(outcome.err.find(control), std::string::npos) << outcome.err;
    }
  }
}

TEST(ToolCompare, OtherDevicesAreRefusedUnlessAskedFor) {
  std::vector<GemmLine> after = lines(2);
  for (GemmLine& line : after) line.gpu = "Other GPU";
  const Outcome refused = compare(gemm_csv(lines(2)), gemm_csv(after));
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(has_text(refused.err, "Test GPU")) << refused.err;
  EXPECT_TRUE(has_text(refused.err, "--any-device")) << refused.err;
  EXPECT_EQ(compare(gemm_csv(lines(2)), gemm_csv(after), "--any-device").status, 0);
}

TEST(ToolCompare, OtherCpusAreRefusedForRowsOfACpu) {
  const std::string gpu = gemm_csv(lines(1));
  EXPECT_EQ(compare(gpu, replaced(gpu, "Test CPU", "Other CPU")).status, 0) << "the GPU's rows";
  const std::string cpu = replaced(gpu, "1,cuda,Test GPU", "1,cpu,none");
  const Outcome refused = compare(cpu, replaced(cpu, "Test CPU", "Other CPU"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(has_text(refused.err, "Other CPU")) << refused.err;
}

TEST(ToolCompare, CastsHaveTheirOwnRate) {
  const Outcome outcome =
      compare(quantize_csv({3000, 3500, 3600}), quantize_csv({3000, 3100, 3600}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(line_of(outcome.out, " 2048x64"), " 2048x64 bf16 block=1x128 3.5 3.1 -11.43 % 0.10 %");
  EXPECT_TRUE(has_text(outcome.out, "-11.43 %")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "TB/s")) << outcome.out;
  EXPECT_EQ(compare(quantize_csv({1}), gemm_csv(lines(1))).status, 2);
}

TEST(ToolCompare, FoldersAreComparedFileByFile) {
  const Folder folder;
  write(folder.file("old/a.csv"), gemm_csv(lines(2)));
  write(folder.file("new/a.csv"), gemm_csv(lines(2)));
  write(folder.file("old/q.csv"), quantize_csv({3000}));
  write(folder.file("new/q.csv"), quantize_csv({2000}));
  write(folder.file("new/more.csv"), quantize_csv({2000}));
  const std::string command = "compare " + folder.file("old") + " " + folder.file("new");
  const Outcome outcome = run_tool(command);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(line_of(outcome.out, "a.csv"), "a.csv same 2 100 100 TFLOPS +0.00 % 0 0 0");
  EXPECT_EQ(line_of(outcome.out, "q.csv"), "q.csv REGRESSION 1 3 2 TB/s -33.33 % 1 0 0");
  EXPECT_EQ(line_of(outcome.out, "more.csv"), "more.csv only in the new - - - - - - -");
  EXPECT_FALSE(has_text(outcome.out, "new/a.csv")) << "one line says that it is the same";
  EXPECT_TRUE(has_text(outcome.out, "old/q.csv -> ")) << outcome.out;
  const std::string verdict =
      "REGRESSION: " + folder.file("new/q.csv") + " (the score fell, 1 slower by more than 5 %)\n";
  EXPECT_TRUE(outcome.out.ends_with(verdict)) << outcome.out;
  write(folder.file("new/q.csv"), quantize_csv({3000}));
  const Outcome same = run_tool(command);
  EXPECT_EQ(same.status, 0);
  EXPECT_TRUE(same.out.ends_with("\nno regression in 2 files\n")) << same.out;
  write(folder.file("new/a.csv"), replaced(gemm_csv(lines(2)), "--device", "--cold --device"));
  const Outcome cold = run_tool(command);
  EXPECT_EQ(cold.status, 2) << cold.out;
  EXPECT_EQ(line_of(cold.out, "a.csv").substr(0, 16), "a.csv no verdict");
  write(folder.file("new/q.csv"), quantize_csv({2000}));
  EXPECT_EQ(run_tool(command).status, 1) << "a regression counts beside a file without a verdict";
}

TEST(ToolCompare, FoldersWithoutACommonNameAreRefusedBriefly) {
  const Folder folder;
  for (char name = 'a'; name <= 'z'; ++name) {
    write(folder.file(std::string("old/") + name + ".csv"), gemm_csv(lines(1)));
  }
  write(folder.file("new/other.csv"), gemm_csv(lines(1)));
  const Outcome outcome = run_tool("compare " + folder.file("old") + " " + folder.file("new"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has_text(outcome.err,
                       "no file of the old results (a.csv, b.csv, c.csv and 23 more) has the name "
                       "of one of the new (other.csv): wanted two runs of the same files"))
      << outcome.err;
}

TEST(ToolCompare, TablesFitTheTerminalUnlessWide) {
  const Folder folder;
  std::vector<GemmLine> before = lines(2);
  for (GemmLine& line : before) line.name = "Model-" + std::string(200, 'x') + " attn";
  std::vector<GemmLine> after = before;
  after[0].rate = 150;
  const auto widest = [&](const std::string& options) {
    const Outcome outcome =
        run_tool("compare " + write(folder.file("old.csv"), gemm_csv(before)) + " " +
                     write(folder.file("new.csv"), gemm_csv(after)) + options,
                 "cd " + folder.path().string() + "; COLUMNS=80");
    std::istringstream text(outcome.out);
    std::size_t most = 0;
    for (std::string line; std::getline(text, line);) {
      if (line.find(".csv") != std::string::npos) continue;  // the paths
      most = std::max(most, bench::width_of(line));
    }
    return most;
  };
  EXPECT_LE(widest(""), 80u);
  EXPECT_GT(widest(" --wide"), 200u);
}

// Rows whose command has these options besides the shape and the device.
std::string rows_with(const std::string& options, const std::vector<double>& rates) {
  std::vector<GemmLine> result = lines(rates.size());
  for (std::size_t i = 0; i < rates.size(); ++i) result[i].rate = rates[i];
  return replaced(gemm_csv(result), "octet bench gemm --dtype fp8", "octet bench gemm " + options);
}

constexpr const char* kBlockwise = "--dtype fp8 --granularity blockwise --format e4m3";
constexpr const char* kRowwise = "--dtype fp8 --granularity rowwise --format e4m3";

TEST(ToolCompareAcross, PairsRowsOfOneLayerInTwoFiles) {
  const std::string blockwise =
      rows_with(std::string(kBlockwise) + " --wgrad-blocks 1d", {100, 100, 100});
  const std::string rowwise = replaced(rows_with(kRowwise, {120, 110, 120}), ",28.6,", ",26.1,");
  const Outcome outcome = compare(blockwise, rowwise, "--across granularity");
  EXPECT_EQ(outcome.status, 0) << "shown, not judged\n" << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("granularity blockwise -> rowwise: gemm, 3 pairs\n"))
      << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "score: 100 -> 116.6 TFLOPS, +16.57 %")) << outcome.out;
  EXPECT_EQ(line_of(outcome.out, "step"), "step +20.00 % +16.57 % +15.00 to +20.00 % 0, 0 3, 3");
  EXPECT_EQ(line_of(outcome.out, "Forward G1 SNR (dB)"), "Forward G1 SNR (dB) 28.6 26.1");
  EXPECT_EQ(line_of(outcome.out, "--wgrad-blocks"), "--wgrad-blocks 1d not given 3")
      << "an option of only one granularity is named and keeps no pair apart";
  EXPECT_EQ(line_of(outcome.out, "--granularity"), "") << "it is in the first line";
  for (const char* word : {"REGRESSION", "no regression", "no verdict", "partner"}) {
    EXPECT_FALSE(has_text(outcome.out, word)) << outcome.out;
  }
  const Outcome slower = compare(rowwise, blockwise, "--across granularity");
  EXPECT_EQ(slower.status, 0) << "a loss is the price of the option, no regression";
  EXPECT_TRUE(has_text(slower.out, "granularity rowwise -> blockwise")) << slower.out;
}

TEST(ToolCompareAcross, PairsRowsOfOneFileWithTheFirstValueOnTheLeft) {
  const Folder folder;
  const auto rows_below = [](const std::string& text) { return text.substr(kGemmColumns.size()); };
  const std::string all =
      rows_with(kBlockwise, {100, 100}) + rows_below(rows_with(kRowwise, {110, 110})) +
      rows_below(rows_with("--dtype fp8 --granularity tensorwise --format e4m3", {120, 130})) +
      rows_below(rows_with("--dtype fp8 --granularity rowwise --format e5m2", {140, 140}));
  const Outcome outcome =
      run_tool("compare --across granularity " + write(folder.file("all.csv"), all));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "granularity blockwise -> rowwise: gemm, 2 pairs\n"));
  EXPECT_TRUE(has_text(outcome.out, "granularity blockwise -> tensorwise: gemm, 2 pairs\n"));
  EXPECT_FALSE(has_text(outcome.out, "rowwise -> tensorwise")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "without a partner: 2 rows: Model-A attn 256x1024x512 "))
      << "rows of another format are other layers\n"
      << outcome.out;
}

TEST(ToolCompareAcross, TakesFp8WithoutAGranularityForBlockwise) {
  const Outcome outcome = compare(rows_with("--dtype fp8 --format e4m3", {100}),
                                  rows_with(kRowwise, {110}), "--across granularity");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "granularity blockwise -> rowwise: gemm, 1 pair\n"))
      << outcome.out;
}

TEST(ToolCompareAcross, NamesWhatTellsPairingsOfTheSameValuesApart) {
  const auto both = [](const char* granularity, double rate) {
    const std::string options = std::string("--dtype fp8 --granularity ") + granularity;
    return rows_with(options + " --format e4m3", {rate}) +
           rows_with(options + " --format e5m2", {rate}).substr(kGemmColumns.size());
  };
  const Outcome outcome =
      compare(both("blockwise", 100), both("rowwise", 110), "--across granularity");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* format : {"e4m3", "e5m2"}) {
    const std::string title =
        std::string("granularity blockwise -> rowwise (--format ") + format + "): gemm, 1 pair\n";
    EXPECT_TRUE(has_text(outcome.out, title)) << outcome.out;
  }
}

TEST(ToolCompareAcross, PairsPrecisionsWhateverGoesWithOneOfThem) {
  const std::string fp8 = rows_with(std::string(kBlockwise) + " --wgrad-blocks 1d", {100});
  const std::string bf16 = rows_with("--dtype bf16", {60});
  const Outcome outcome = compare(bf16, fp8, "--across dtype");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "dtype bf16 -> fp8: gemm, 1 pair\n")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "+66.67 %")) << outcome.out;
  EXPECT_EQ(compare(bf16, rows_with(std::string(kBlockwise) + " --dw f32", {100}), "--across dtype")
                .status,
            2)
      << "both precisions take --dw";
}

TEST(ToolCompareAcross, BlocksOfTheWeightGradientHaveABlockEach) {
  const std::string rows = rows_with(std::string(kBlockwise) + " --wgrad-blocks 1d", {100, 90});
  const std::string squares = rows_with(std::string(kBlockwise) + " --wgrad-blocks 2d", {120, 99});
  const Outcome outcome = compare(rows, squares, "--across wgrad-blocks");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "wgrad-blocks 1d -> 2d: gemm, 2 pairs\n")) << outcome.out;
  const Outcome head =
      compare(replaced(rows, " --wgrad-blocks 1d", ""), squares, "--across wgrad-blocks");
  EXPECT_TRUE(has_text(head.out, "wgrad-blocks not given -> 2d")) << head.out << head.err;
}

TEST(ToolCompareAcross, RowsWithTheSameForcedBackendArePaired) {
  const auto forced = [](const std::string& text, const std::string& backend) {
    return replaced(text, "--device", "--backend " + backend + " --device")
        .substr(kGemmColumns.size());
  };
  const std::string blockwise = rows_with(kBlockwise, {100});
  const std::string rowwise = rows_with(kRowwise, {110});
  const Outcome outcome =
      compare(blockwise + forced(rows_with(kBlockwise, {50}), "cublaslt"),
              rowwise + forced(rows_with(kRowwise, {70}), "cublaslt"), "--across granularity");
  EXPECT_TRUE(has_text(outcome.out, "score: 100 -> 110 TFLOPS")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "score: 50 -> 70 TFLOPS")) << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, "forced backend")) << outcome.out;
  const Outcome other =
      compare(blockwise, kGemmColumns + forced(rowwise, "cublaslt"), "--across granularity");
  EXPECT_EQ(line_of(other.out, "forced backend"), "forced backend not forced --backend cublaslt 1")
      << "none has the same";
}

TEST(ToolCompareAcross, SaysWhatKeepsRowsApart) {
  const std::string blockwise = rows_with(kBlockwise, {100});
  const auto expect_refused = [](const Outcome& outcome, const std::string& text) {
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(has_text(outcome.err, text)) << outcome.err;
    EXPECT_TRUE(has_text(outcome.err,
                         "wanted rows of one layer that differ in --granularity, in one file or "
                         "two"))
        << outcome.err;
  };
  expect_refused(compare(blockwise, blockwise, "--across granularity"),
                 "every row has granularity blockwise; ");
  expect_refused(
      compare(blockwise, rows_with("--dtype fp8 --granularity rowwise --format e5m2", {100}),
              "--across granularity"),
      "Model-A attn 256x1024x512 with granularity blockwise and rowwise differs in other "
      "options, too: --format e4m3, now e5m2; ");
  expect_refused(
      compare(blockwise, replaced(rows_with(kRowwise, {100}), "Model-A", "Model-B"),
              "--across granularity"),
      "(granularity rowwise, first Model-B attn 256x1024x512) have no layer in common; ");
  const Outcome kinds = compare(blockwise, quantize_csv({3000}), "--across dtype");
  EXPECT_EQ(kinds.status, 2);
  EXPECT_TRUE(has_text(kinds.err, "wanted two of one operator")) << kinds.err;
}

TEST(ToolCompareAcross, TakesTheFilesThatArePublished) {
  const std::string results = std::string(OCTET_SOURCE_DIR) + "/results/h200/";
  const Outcome outcome = run_tool("compare --across wgrad-blocks " + results + "dense84.csv " +
                                   results + "dense84_2d.csv");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "wgrad-blocks 1d -> 2d: gemm, 84 pairs\n")) << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, "partner")) << outcome.out;
}

}  // namespace
}  // namespace octet::tool
