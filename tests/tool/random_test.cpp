// Layers drawn at random: the draw itself, its distribution as docs/benchmarking.md publishes it, and
// the two groups in which results are shown.
#include "result_files.hpp"
#include "results.hpp"

#include "tool/cases/random_layers.hpp"
#include "tool/cases/suites.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

namespace octet::tool {
namespace {

// "739x4096x384 random M>256 1/1"
std::string text_of(const LayerCase& layer) {
  return fmt::format("{}x{}x{} {}", layer.m, layer.n, layer.k, layer.name());
}

std::vector<std::string> texts_of(const std::vector<LayerCase>& layers) {
  std::vector<std::string> texts;
  for (const LayerCase& layer : layers) texts.push_back(text_of(layer));
  return texts;
}

// From another implementation of the documented draw, with 50 digits. If these change, the published
// results are of other layers.
TEST(RandomLayers, OfASeedAreTheSameEverywhere) {
  EXPECT_EQ(texts_of(random_layers(1, 8)),
            (std::vector<std::string>{
                "739x4096x384 random M>256 1/1", "18669x4025x2003 random M>256 1/2",
                "4x640x3696 random M<=256 1/3", "7x9389x1731 random M<=256 1/4",
                "11041x13263x29475 random M>256 1/5", "13588x6656x4096 random M>256 1/6",
                "45x9856x18944 random M<=256 1/7", "6479x11008x4224 random M>256 1/8"}));
  const std::vector<std::int64_t> sizes = load_random_sizes();
  EXPECT_EQ(text_of(random_layer(sizes, INT64_MAX, 5)),
            "113x640x18944 random M<=256 9223372036854775807/5");
  EXPECT_EQ(text_of(random_layer(sizes, 100, 100'000)), "1x2048x8192 random M<=256 100/100000");
}

TEST(RandomLayers, AreMadeOfTheSizesOfModels) {
  EXPECT_EQ(load_random_sizes(),
            (std::vector<std::int64_t>{1408, 1536, 1920, 2048, 3584, 4096, 5120, 6144, 7168, 8192,
                                       11008, 14336, 16384, 18944, 28672, 29568, 53248}));
}

TEST(RandomLayers, OfAShorterDrawAreTheFirstOfALongerOne) {
  const std::vector<std::string> few = texts_of(random_layers(3, 40));
  const std::vector<std::string> many = texts_of(random_layers(3, 100));
  EXPECT_EQ(few, std::vector<std::string>(many.begin(), many.begin() + 40));
  EXPECT_NE(texts_of(random_layers(4, 40)), few);
}

bool is_size_or_share(std::int64_t value) {
  for (const std::int64_t size : load_random_sizes()) {
    if (size % value == 0 && size / value <= 8) return true;
  }
  return false;
}

TEST(RandomLayers, AreDistributedAsPublished) {
  constexpr int kSeeds = 20, kCount = 1000;
  std::vector<int> octaves(16);
  int odd = 0, few_rows = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    for (const LayerCase& layer : random_layers(static_cast<std::uint64_t>(seed), kCount)) {
      ASSERT_GE(layer.m, 1);
      ASSERT_LE(layer.m, 32768);
      ++octaves[static_cast<std::size_t>(std::log2(layer.m))];
      EXPECT_EQ(layer.model, layer.m <= 256 ? "random M<=256" : "random M>256");
      if (layer.m <= 256) ++few_rows;
      const bool is_odd = layer.n % 2 != 0;
      if (is_odd) ++odd;
      for (const std::int64_t size : {layer.n, layer.k}) {
        bool is_made_of_a_size = !is_odd && is_size_or_share(size);
        for (int loss = 1; is_odd && loss < 128; loss += 2) {
          is_made_of_a_size = is_made_of_a_size || is_size_or_share(size + loss);
        }
        EXPECT_TRUE(is_made_of_a_size) << text_of(layer);
      }
      if (is_odd) {
        EXPECT_TRUE(layer.m % 2 != 0 && layer.k % 2 != 0) << text_of(layer);
      }
    }
  }
  constexpr double kAll = kSeeds * kCount;
  EXPECT_NEAR(odd / kAll, 0.2, 0.015);
  // 256.5 rows are 2^8.003.
  EXPECT_NEAR(few_rows / kAll, 8.003 / 15, 0.015);
  // Rounding moves rows between the octaves of few rows, and 32768 is the last row of the last.
  for (std::size_t octave = 4; octave < 15; ++octave) {
    EXPECT_NEAR(octaves[octave] / kAll, 1.0 / 15, 0.01) << octave;
  }
}

TEST(ToolRandom, ListsTheCasesAndRunsNothing) {
  const Folder folder;
  const std::string command = "bench gemm --device cpu --list ";
  const Outcome listed = run_tool(command + "--random 3");
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_EQ(listed.out,
            "739x4096x384  random M>256 1/1\n18669x4025x2003  random M>256 1/2\n"
            "4x640x3696  random M<=256 1/3\n");
  for (const std::string& file :
       {"-o " + folder.file("x.csv"), std::string("--json -"), "--json " + folder.file("x.json")}) {
    const Outcome refused = run_tool(command + "--random 3 " + file);
    EXPECT_EQ(refused.status, 2) << file;
    EXPECT_EQ(refused.out, "") << file;
    EXPECT_TRUE(has_text(refused.err, "--list prints the cases and writes no file, got " + file))
        << refused.err;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(run_tool(command + "--random 3 --num-shards 3 --shard-id 2").out,
            "4x640x3696  random M<=256 1/3\n");
  EXPECT_EQ(run_tool(command + "--shape 1x2x3").out, "1x2x3\n");
  EXPECT_EQ(run_tool("bench rope --device cpu --list --shape 1x2x128").out, "1x2x128\n");
}

TEST(ToolRandom, ChecksTheLayersThatItDraws) {
  const Outcome outcome = run_tool("check gemm --random 2 --seed 1362 --device cpu");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "random M<=256 1362/1 1x309x913")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "random M<=256 1362/2 1x896x1024")) << outcome.out;
}

TEST(ToolRandom, ALongerDrawKeepsTheRowsOfAShorterOne) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const auto bench = [&](const std::string& arguments) {
    return run_tool("bench gemm --device cpu --warmup 1 --iters 3 " + arguments + " -o " + path);
  };
  ASSERT_EQ(bench("--random 1 --seed 1362").status, 0);
  EXPECT_TRUE(has_text(bench("--random 2 --seed 1362").out, "1 of 2 cases already in"));
  // The layers of another seed are other cases.
  EXPECT_TRUE(has_text(bench("--random 1 --seed 1238").out, "2 rows of other cases kept"));
  const Results results = read_results(path);
  ASSERT_EQ(results.records.size(), 3u);
  EXPECT_EQ(results.records[1].at("Case"), "random M<=256 1362/2");
  EXPECT_EQ(results.records[1].at("TestID"), "2");
  EXPECT_EQ(results.records[2].at("Case"), "random M<=256 1238/1");
}

// Two layers of few rows, and two of many.
std::string drawn_csv(double of_few, double of_many) {
  return gemm_csv({{"random M<=256 9/1", 1, of_few},
                   {"random M>256 9/2", 2, of_many},
                   {"random M<=256 9/3", 3, of_few},
                   {"random M>256 9/4", 4, of_many}});
}

bool has_line(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex("(^|\n)" + pattern));
}

TEST(ToolRandom, FewRowsAreApartFromManyInSummaries) {
  const Folder folder;
  write(folder.file("a.csv"), drawn_csv(10, 1000));
  write(folder.file("b.csv"), gemm_csv({{"Model-A x", 1, 500}}));
  const std::string out = run_tool("summarize " + folder.path().string()).out;
  EXPECT_TRUE(has_line(out, "gemm +random M<=256 +10\\.00")) << out;
  EXPECT_TRUE(has_line(out, "gemm +random M>256 +1000")) << out;
  EXPECT_TRUE(has_line(out, "gemm +fp8 +500\\.0")) << out;
}

TEST(ToolRandom, FewRowsAreApartFromManyInComparisons) {
  const Folder folder;
  write(folder.file("old.csv"), drawn_csv(10, 1000));
  write(folder.file("new.csv"), drawn_csv(20, 1000));
  const auto compare = [&](const std::string& before, const std::string& after) {
    return run_tool("compare " + folder.file(before) + " " + folder.file(after));
  };
  const std::string out = compare("old.csv", "new.csv").out;
  EXPECT_TRUE(has_text(out, "gemm, random M<=256, 2 cases in both")) << out;
  EXPECT_TRUE(has_text(out, "gemm, random M>256, 2 cases in both")) << out;
  EXPECT_TRUE(has_line(out, "score: 10 -> 20 TFLOPS, \\+100\\.00 %")) << out;
  EXPECT_TRUE(has_line(out, "score: 1000 -> 1000 TFLOPS, \\+0\\.00 %")) << out;
  EXPECT_TRUE(out.ends_with("\nno regression in 1 file\n")) << out;
  // What many rows gain does not hide what few lose.
  write(folder.file("worse.csv"), drawn_csv(9, 2000));
  const Outcome worse = compare("old.csv", "worse.csv");
  EXPECT_EQ(worse.status, 1) << worse.out;
  EXPECT_TRUE(has_line(worse.out, "REGRESSION: .*worse\\.csv, random M<=256 \\(")) << worse.out;
}

TEST(ToolRandom, FewRowsAreApartFromManyAcrossAnOption) {
  const Folder folder;
  const auto with = [&](const char* file, const char* options, double few, double many) {
    std::string text = drawn_csv(few, many);
    for (std::size_t at = text.find("--dtype fp8"); at != std::string::npos;
         at = text.find("--dtype fp8", at + 1)) {
      text.insert(at + 11, options);
    }
    return write(folder.file(file), text);
  };
  const std::string rows = with("rows.csv", " --granularity rowwise", 10, 1000);
  const std::string blocks = with("blocks.csv", " --granularity blockwise", 20, 500);
  const std::string out = run_tool("compare --across granularity " + rows + " " + blocks).out;
  EXPECT_TRUE(has_text(out, "gemm, random M<=256, 2 pairs")) << out;
  EXPECT_TRUE(has_text(out, "gemm, random M>256, 2 pairs")) << out;
  EXPECT_TRUE(has_text(out, "+100.00 %")) << out;
  EXPECT_TRUE(has_text(out, "-50.00 %")) << out;
}

// As tools/peers.py writes them: a column Case.
TEST(ToolRandom, FewRowsAreApartFromManyBesidePeers) {
  const Folder folder;
  std::string text =
      "M,N,K,Case,Dtype,Product,Library,Version,Check,Time (ms),TFLOPS,Ratio,Spread "
      "(%),GPU,Commit,Note,Command\n";
  for (const auto& [m, name, ratio] : {std::tuple{16, "random M<=256 9/1", 2.0},
                                       {32, "random M<=256 9/2", 0.5},
                                       {4096, "random M>256 9/3", 1.25}}) {
    for (const auto& [library, rate] : {std::pair{"octet", 100.0}, {"rival", 100 / ratio}}) {
      text += fmt::format(
          "{},64,64,{},fp8,forward,{},,PASS,1,{},,0.1,Test GPU,abc,,tools/peers.py --op gemm "
          "--shape {}x64x64\n",
          m, name, library, rate, m);
    }
  }
  write(folder.file("peers.csv"), text);
  const std::string out = run_tool("summarize " + folder.path().string()).out;
  EXPECT_TRUE(has_line(out, "gemm +M<=256 +rival +2 +1\\.000x +0\\.500x +2\\.000x +50\\.0 %"))
      << out;
  EXPECT_TRUE(has_line(out, "gemm +M>256 +rival +1 +1\\.250x")) << out;
}

}  // namespace
}  // namespace octet::tool
