#include "bench/report/tables.hpp"
#include "support/refusal.hpp"

#include <octet/bench.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace octet::bench {
namespace {

Verdict passed(double snr_db) { return {.pass = true, .snr_db = snr_db}; }
Verdict failed() { return {.pass = false, .snr_db = 3, .note = "SNR 3 dB, wanted > 50 dB"}; }

Samples samples(std::vector<std::vector<double>> parts) {
  Samples result;
  result.timed_calls = static_cast<int>(parts[0].size());
  result.warmup = 2;
  result.parts = std::move(parts);
  return result;
}

// The file of a report, read back.
struct Written {
  std::vector<std::string> lines;

  explicit Written(const Report& report) {
    const std::string path =
        ::testing::TempDir() + "octet_report_" + std::to_string(::getpid()) + ".csv";
    report.write_csv(path);
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::filesystem::remove(path);
  }
};

std::string joined(const Row& row) {
  std::string result;
  for (const std::string& field : row) result += (result.empty() ? "" : ",") + field;
  return result;
}

TEST(Report, PrintsProductsAsTheToolDoes) {
  Report report({.name = "my_gemm", .version = "7"});
  // 2 * 10^9 operations in 1 ms: 2 TFLOPS.
  report.add({.name = "square", .m = 1000, .n = 1000, .k = 1000}, passed(140),
             samples({{0.001, 0.001, 0.001}}));
  EXPECT_TRUE(report.pass());
  EXPECT_EQ(report.text(),
            "case    shape           check  forward ms  TFLOPS  step TFLOPS  spread %  SNR dB\n"
            "square  1000x1000x1000  PASS            1       2            2         0     140\n"
            "Score: 2 TFLOPS (geometric mean of 1 case)\n"
            "1 PASS, 0 FAIL, 0 ERROR\n");
}

TEST(Report, WritesTheColumnsOfTheTool) {
  Report report({.name = "my_gemm, tiled", .version = "7", .configuration = "block=64"});
  report.add({.name = "layer", .m = 1000, .n = 1000, .k = 1000, .dtype = "bf16"}, passed(60),
             samples({{0.001, 0.001}, {0.004, 0.004}}));
  const Written written(report);
  ASSERT_EQ(written.lines.size(), 2u);
  EXPECT_EQ(written.lines[0], joined(gemm_columns(false)));
  EXPECT_EQ(
      written.lines[1].rfind("1,cpu,none,layer,,1000,1000,1000,bf16,none,PASS,1,2,4,1,5,1.2,", 0),
      0u)
      << written.lines[1];
  EXPECT_NE(written.lines[1].find(",\"my_gemm, tiled\",block=64,,2,2,0,,"), std::string::npos)
      << written.lines[1];
}

TEST(Report, ARowThatFailsHasNoTimes) {
  Report report({.name = "my_gemm"});
  report.add({.name = "bad", .m = 2, .n = 3, .k = 4}, failed(), samples({{1, 1}}));
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(report.text(),
            "case  shape  check  SNR dB\n"
            "bad   2x3x4  FAIL        3\n"
            "FAIL bad: SNR 3 dB, wanted > 50 dB\n"
            "0 PASS, 1 FAIL, 0 ERROR\n");
  EXPECT_EQ(Written(report).lines[1].rfind("1,cpu,none,bad,,2,3,4,f32,none,FAIL,,,,,,,", 0), 0u);
}

TEST(Report, SetsABaselineBeside) {
  Report report({.name = "my_gemm", .baseline = "openblas"});
  const Comparison comparison{samples({{0.001, 0.001}}), samples({{0.003, 0.003}}), {3}, 3};
  report.add({.name = "square", .m = 1000, .n = 1000, .k = 1000}, passed(140), comparison);
  EXPECT_NE(report.text().find("step TFLOPS  ratio"), std::string::npos) << report.text();
  const Written written(report);
  EXPECT_EQ(written.lines[0], joined(gemm_columns(true)));
  EXPECT_NE(written.lines[1].find(",openblas,3,,3,3,,3"), std::string::npos) << written.lines[1];
}

TEST(Report, SetsAKernelBesideACopy) {
  Report report({.name = "saxpy"});
  const Comparison comparison{samples({{0.002, 0.002}}), samples({{0.001, 0.001}}), {0.5}, 0.5};
  report.add({.rows = 10, .cols = 100, .bytes = 2'000'000}, passed(140), comparison);
  EXPECT_EQ(report.text(),
            "shape   check  ms  GB/s  copy GB/s  of a copy  spread %\n"
            "10x100  PASS    2     1          2        0.5         0\n"
            "Score: 1 GB/s (geometric mean of 1 case)\n"
            "Share of copy bandwidth: 50 %; medians over pairs timed side by side\n"
            "1 PASS, 0 FAIL, 0 ERROR\n");
  EXPECT_EQ(Written(report).lines[0], joined(cast_columns()));
}

TEST(Report, SaysHowItWasTimed) {
  Report report({.name = "saxpy"});
  Samples times = samples({{1, 2, 3, 4, 5}});
  times.cold = times.repeated = true;
  report.add({.cols = 100, .bytes = 100}, passed(140), times);
  EXPECT_NE(report.text().find("  cold; noisy (measured twice)\n"), std::string::npos)
      << report.text();
}

TEST(Report, RefusesWhatItCannotShow) {
  EXPECT_EQ(refusal([] { Report({.name = ""}); }), "report: the kernel has no name");
  Report report({.name = "k"});
  EXPECT_EQ(report.text(), "no results\n");
  EXPECT_FALSE(report.pass()) << "an empty report does not pass";
  EXPECT_EQ(refusal([&] { report.write_csv("x.csv"); }),
            "report: there are no results to write to x.csv");
  EXPECT_EQ(refusal([&] { report.add(MemoryCase{.cols = 1}, passed(1), Samples{}); }),
            "report: a PASS of k has the times of 0 parts, wanted 1");
  EXPECT_EQ(refusal([&] {
              report.add(GemmCase{.name = "x"}, passed(1), samples({{1}, {1}, {1}}));
            }),
            "report: a PASS of k has the times of 3 parts, wanted 1 or 2");
  report.add(MemoryCase{.cols = 1}, passed(1), samples({{1}}));
  EXPECT_EQ(refusal([&] { report.add(GemmCase{.name = "x"}, passed(1), samples({{1}})); }),
            "report: products and memory-bound kernels have columns of their own; give each "
            "a Report");
  EXPECT_EQ(refusal([&] { report.write_csv("/nonexistent/x.csv"); }, ErrorCode::file_error),
            "cannot write /nonexistent/x.csv: No such file or directory");
}

TEST(ReplaceFile, LeavesTheNewFileOrTheOldOne) {
  namespace fs = std::filesystem;
  const fs::path folder = ::testing::TempDir() + "octet_replace_" + std::to_string(::getpid());
  fs::create_directories(folder / "full/x");
  const auto text_of = [](const fs::path& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string path = folder / "a";
  const std::string beside = folder / "a.new";
  EXPECT_EQ(replace_file(path, beside, "one"), 0);
  std::ofstream(beside) << "what a killed run left";
  EXPECT_EQ(replace_file(path, beside, "two"), 0);
  EXPECT_EQ(text_of(path), "two");
  EXPECT_EQ(replace_file(path, folder / "missing/a.new", "three"), ENOENT);
  EXPECT_EQ(text_of(path), "two");
  EXPECT_EQ(replace_file(folder / "full", beside, "three"), EISDIR);
  EXPECT_FALSE(fs::exists(beside)) << "nothing is left beside";
  EXPECT_NE(name_beside(path), name_beside(path));
  fs::remove_all(folder);
}

TEST(ReplaceFile, WritesThroughALink) {
  namespace fs = std::filesystem;
  const fs::path folder = ::testing::TempDir() + "octet_links_" + std::to_string(::getpid());
  fs::create_directories(folder / "away");
  fs::create_symlink("away/real", folder / "link");
  EXPECT_EQ(link_target(folder / "link"), (folder / "away/real").string());
  EXPECT_EQ(link_target(folder / "none"), (folder / "none").string());
  for (const std::string text : {"one", "two"}) {
    EXPECT_EQ(replace_file(folder / "link", folder / "link.new", text), 0);
    std::ifstream file(folder / "away/real");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "away"), {}), 1);
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(link_target(folder / "loop"), "");
  EXPECT_EQ(replace_file(folder / "loop", folder / "loop.new", "three"), ELOOP);
  fs::remove_all(folder);
}

TEST(Metrics, CountOperationsAndBytes) {
  EXPECT_DOUBLE_EQ(gemm_tflops(1000, 2000, 500, 0.002), 1);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(3'000'000'000, 2), 1.5);
}

TEST(Metrics, SetAKernelBesideACopyOfItsBytes) {
  DeviceTiming timing;
  int calls = 0;
  const Comparison comparison = compare_with_copy(timing, [&](std::int64_t) { ++calls; }, 1 << 16,
                                                  {.warmup = 1, .iterations = 5});
  EXPECT_GE(calls, 1 + 5 + 5);
  EXPECT_EQ(comparison.peer.iterations(), 5);
  EXPECT_GT(comparison.peer.median_seconds(), 0);
  EXPECT_THROW(compare_with_copy(
                   timing, [](std::int64_t) {}, 1),
               Error);
}

TEST(Fields, NumbersAreTheSameInEveryLocale) {
  EXPECT_EQ(number(1234.5678901), "1234.57");
  EXPECT_EQ(number(1e-7), "1e-07");
  EXPECT_EQ(number(std::numeric_limits<double>::quiet_NaN()), "");
}

}  // namespace
}  // namespace octet::bench
