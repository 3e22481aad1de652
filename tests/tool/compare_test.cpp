// octet compare names the cases that got slower or broke, and returns 1 only for those.
#include "result_files.hpp"
#include "tool/results/files.hpp"

#include "bench/report/record.hpp"

#include <algorithm>

namespace octet::tool {
namespace {

Outcome compare(const std::string& before, const std::string& after,
                const std::string& options = "") {
  const Folder folder;
  return run_tool("compare " + write(folder.file("old.csv"), before) + " " +
                  write(folder.file("new.csv"), after) + " " + options);
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
  EXPECT_TRUE(has_text(noisy.out, "but not than the noise")) << noisy.out;
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
  EXPECT_TRUE(has_text(outcome.out, "beyond 1 % and the noise: 4 slower, 0 faster of 4"));
  EXPECT_TRUE(has_text(outcome.out, "beyond 5 % and the noise: 0 slower, 0 faster of 4"));
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

TEST(ToolCompare, OtherProblemsOfOneShapeAreNotCompared) {
  std::vector<GemmLine> after = lines(1);
  after[0].options = " --prequantized";
  const Outcome outcome = compare(gemm_csv(lines(1)), gemm_csv(after));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has_text(outcome.err, "no case in common")) << outcome.err;
  std::vector<GemmLine> before = lines(1);
  before[0].options = " --dw f32";
  after[0].options = " --input f32";
  EXPECT_TRUE(has_text(compare(gemm_csv(before), gemm_csv(after)).err, "no case in common"));
  after[0].options = " --iters 7 --seed 3";
  EXPECT_EQ(compare(gemm_csv(lines(1)), gemm_csv(after)).status, 0);
}

TEST(ToolCompare, WhatTheEnvironmentForcedIsNoOtherProblem) {
  const std::string before = gemm_csv(lines(1));
  std::string after = before;
  after.insert(after.find("octet bench"), "OCTET_GEMM_BACKEND=cublaslt ");
  EXPECT_EQ(compare(before, after).status, 0) << "as with --backend";
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
  const auto replaced = [](std::string text, const std::string& part, const std::string& other) {
    return text.replace(text.find(part), part.size(), other);
  };
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
  EXPECT_TRUE(has_text(outcome.out, "2048x64 bf16 block=1x128")) << outcome.out;
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
  EXPECT_TRUE(has_text(outcome.out, "a.csv: gemm, 2 cases in both")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "-33.33 %")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "more.csv: nothing to compare")) << outcome.out;
  write(folder.file("new/q.csv"), quantize_csv({3000}));
  EXPECT_EQ(run_tool(command).status, 0);
}

}  // namespace
}  // namespace octet::tool
