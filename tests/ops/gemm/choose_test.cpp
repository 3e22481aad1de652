// The configurations of the Hopper product and the choice among them, without a GPU.
#include "core/checks.hpp"
#include "ops/gemm/sm90/compiled.hpp"
#include "ops/gemm/sm90/wgmma.hpp"
#include "ops/gemm/product_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace octet::testing {
namespace {

constexpr int kH200 = 132;  // multiprocessors

bool is_compiled(const Sm90GemmConfig& config) {
  const auto configs = sm90_gemm_configs();
  return std::find(configs.begin(), configs.end(), config) != configs.end();
}

// The share of the tensor cores' peak that the model predicts.
double predicted_utilisation(const GemmProblem& problem, const Sm90GemmConfig& config) {
  const double clocks = sm90_gemm_clocks(problem, config, kH200);
  const double steps = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                       static_cast<double>(problem.k);
  return steps / (4096.0 * kH200 * clocks);
}

TEST(Sm90GemmConfigs, ReadBackWhatTheyPrint) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    const auto read = parse_sm90_gemm_config(name(config));
    ASSERT_TRUE(read.has_value()) << name(config);
    EXPECT_TRUE(*read == config) << name(config);
  }
}

TEST(Sm90GemmConfigs, PrintEverythingTheyAre) {
  EXPECT_EQ(name(Sm90GemmConfig{}), "256x128x4 1x128.128x128 e4m3.e4m3");
  EXPECT_EQ(name(Sm90GemmConfig{64, 256, 5, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3}),
            "64x256x5 1x128.1x128 e5m2.e4m3");
  EXPECT_EQ(name(Sm90GemmConfig{256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3,
                                Columns::paired}),
            "256x128x4 1x128.1x128 e4m3.e4m3 paired");
  EXPECT_EQ(name(Sm90GemmConfig{256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3,
                                Columns::in_order, 2}),
            "256x128x4 1x128.128x128 e4m3.e4m3 cluster");
  std::set<std::string> names;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) names.insert(name(config));
  EXPECT_EQ(names.size(), sm90_gemm_configs().size()) << "two configurations print the same";
}

TEST(Sm90GemmConfigs, RefuseTextThatNamesNone) {
  for (const char* text :
       {"", "256x128x4", "256x128x4 1x128.128x128", "128x128x7 1x128.1x128",
        "256x128x4 1x128.128x128 e4m3.e4m3 ", " 256x128x4 1x128.1x128 e4m3.e4m3",
        "256x128x4 1x128.128x128 e4m3.f16", "96x128x4 1x128.128x128 e4m3.e4m3"}) {
    EXPECT_FALSE(parse_sm90_gemm_config(text).has_value()) << '"' << text << '"';
  }
}

TEST(Sm90GemmChoice, GivesEveryProblemACompiledConfiguration) {
  constexpr std::int64_t kExtents[] = {1, 63, 64, 129, 4096, 106496, 1 << 30};
  for (const std::int64_t m : kExtents) {
    for (const std::int64_t n : kExtents) {
      for (const std::int64_t k : kExtents) {
        for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
          for (const Dtype a : {Dtype::e4m3, Dtype::e5m2}) {
            for (const Dtype b : {Dtype::e4m3, Dtype::e5m2}) {
              GemmProblem problem = make_problem(m, n, k, block);
              problem.a.dtype = a;
              problem.b.dtype = b;
              const Sm90GemmConfig& config = choose_sm90_gemm(problem, kH200);
              ASSERT_TRUE(is_compiled(config)) << describe(problem);
              ASSERT_TRUE(config.a == a && config.b == b) << describe(problem);
              ASSERT_EQ(config.promotion == Promotion::one_by_one, block == kBlock1x128)
                  << describe(problem);
              ASSERT_TRUE(sm90_gemm_fits(problem, config)) << describe(problem);
            }
          }
        }
      }
    }
  }
}

// Where they fill the last wave: 512 rows by 5120 columns are 128 tiles of 128x160 for 132 multiprocessors.
TEST(Sm90GemmChoice, TakesNarrowTilesWhereTheyFillAWave) {
  for (const Sm90GemmConfig& narrow : kSm90NarrowConfigs) {
    const bool squares = narrow.promotion == Promotion::product_of_scales;
    const GemmProblem problem =
        squares ? make_problem(4L * narrow.tile_m, 32L * narrow.tile_n, 13824, kBlock128x128)
                : make_problem(8L * narrow.tile_m, 16L * narrow.tile_n, 4096, kBlock1x128);
    EXPECT_EQ(name(choose_sm90_gemm(problem, kH200)), name(narrow)) << describe(problem);
  }
}

// Where a tile has one slice more than its ring stages, its first load waits for the last product of the tile before:
// 128x160 has five stages, tiles of 192 and 256 columns have four.
TEST(Sm90GemmChoice, CountsTheLoadThatFollowsATile) {
  const GemmProblem five = make_problem(16996, 1536, 5 * 128, kBlock128x128);
  EXPECT_EQ(name(choose_sm90_gemm(five, kH200)), "128x160x5 1x128.128x128 e4m3.e4m3");
  const Sm90GemmConfig& wide = sm90_gemm_configs()[2];
  ASSERT_EQ(name(wide), "128x256x4 1x128.128x128 e4m3.e4m3");
  const auto clocks = [&](int slices) {
    return sm90_gemm_clocks(make_problem(16996, 1536, slices * 128, kBlock128x128), wide, kH200);
  };
  EXPECT_GT(clocks(5) - clocks(4), clocks(4) - clocks(3));
}

TEST(Sm90GemmChoice, NeedsTwoMultiprocessorsForACluster) {
  const GemmProblem problem = make_problem(8192, 8192, 8192, kBlock128x128);
  EXPECT_EQ(choose_sm90_gemm(problem, kH200).cluster, 2);
  EXPECT_EQ(choose_sm90_gemm(problem, 1).cluster, 1);
}

// Settings that the epilogue reads at run time and the index of the GPU do not change the choice;
// for some problem the number of multiprocessors does.
TEST(Sm90GemmChoice, DependsOnOperandsAndMultiprocessorsOnly) {
  std::set<std::string> names;
  for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
    for (const std::int64_t m : {64, 1024, 5000}) {
      for (const int multiprocessors : {1, 78, kH200}) {
        const GemmProblem problem = make_problem(m, 3000, 1000, block);
        const Sm90GemmConfig chosen = choose_sm90_gemm(problem, multiprocessors);
        GemmProblem other = problem;
        other.out_dtype = Dtype::f32;
        other.accumulate = true;
        other.device = {DeviceType::cuda, 3};
        EXPECT_EQ(name(choose_sm90_gemm(other, multiprocessors)), name(chosen))
            << describe(problem);
        if (m == 64 && block == kBlock128x128) names.insert(name(chosen));
      }
    }
  }
  EXPECT_GT(names.size(), 1u) << "1, 78 and 132 multiprocessors have the same choice";
}

int fewest_rows(const GemmProblem& problem) {
  int rows = std::numeric_limits<int>::max();
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (sm90_gemm_fits(problem, config)) rows = std::min(rows, config.tile_m);
  }
  return rows;
}

TEST(Sm90GemmChoice, TakesSmallTilesForFewRows) {
  for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
    for (const std::int64_t m : {1, 16, 64, 128}) {
      const Sm90GemmConfig& config = choose_sm90_gemm(make_problem(m, 8192, 8192, block), kH200);
      EXPECT_LT(config.tile_m * config.tile_n, 256 * 128) << "M = " << m << ": " << name(config);
    }
    // If there are more tiles than multiprocessors, work on rows beyond M is wasted.
    const GemmProblem problem = make_problem(64, 65536, 8192, block);
    const Sm90GemmConfig& config = choose_sm90_gemm(problem, kH200);
    EXPECT_EQ(config.tile_m, fewest_rows(problem)) << name(config);
  }
  EXPECT_EQ(fewest_rows(make_problem(64, 65536, 8192, kBlock128x128)), 64);
}

// Few rows are memory-bound on the weights, and one multiprocessor cannot saturate memory.
TEST(Sm90GemmChoice, SpreadsFewRowsOverTheDevice) {
  for (const std::int64_t m : {1, 16, 64, 128}) {
    const GemmProblem problem = make_problem(m, 4096, 14336, kBlock128x128);
    const Sm90GemmConfig& config = choose_sm90_gemm(problem, kH200);
    const std::int64_t tiles = ceil_div(m, config.tile_m) * ceil_div(4096, config.tile_n);
    EXPECT_GE(tiles, 64) << "M = " << m << ": " << name(config);
    EXPECT_LE(tiles, kH200) << "M = " << m << ": " << name(config);
  }
}

// The fastest of all tiles, measured side by side on an H200.
TEST(Sm90GemmChoice, TakesWhatWasMeasuredQuickest) {
  struct Measured {
    std::int64_t m, n, k;
    const char* tile;
  };
  for (const auto& [m, n, k, tile] :
       {Measured{1, 4096, 4096, "64x32x12"}, {16, 4096, 4096, "64x32x12"},
        {16, 14336, 4096, "64x128x8"},       {48, 4096, 14336, "64x32x12"},
        {48, 8192, 8192, "64x64x10"},        {64, 4096, 14336, "64x32x12"},
        {72, 4096, 14336, "64x64x10"},       {72, 14336, 4096, "128x128x6"},
        {96, 2048, 7168, "64x32x12"},        {96, 8192, 8192, "64x128x8"},
        {136, 4096, 14336, "64x128x8"},      {136, 8192, 8192, "128x128x6"},
        {200, 14336, 4096, "128x256x4"},     {128, 4096, 14336, "64x64x10"},
        {64, 8192, 8192, "64x64x10"},        {64, 2048, 2048, "64x32x12"},
        {128, 8192, 8192, "64x128x8"},       {64, 14336, 4096, "64x128x8"},
        {256, 4096, 4096, "64x128x8"},       {512, 2048, 8192, "64x128x8"},
        {128, 14336, 4096, "128x128x6"},     {192, 8192, 8192, "128x128x6"},
        {256, 8192, 8192, "128x128x6"},      {384, 4096, 14336, "128x128x6"},
        {512, 4096, 14336, "128x128x6"},     {1024, 2048, 2048, "128x128x6"}}) {
    const GemmProblem problem = make_problem(m, n, k, kBlock128x128);
    EXPECT_EQ(name(choose_sm90_gemm(problem, kH200)),
              std::string(tile) + " 1x128.128x128 e4m3.e4m3")
        << describe(problem);
  }
}

// Of layers drawn at random: the quickest of all tiles by 4 to 60 %, measured side by side on an H200.
TEST(Sm90GemmChoice, TakesWhatWasMeasuredQuickestOfRandomLayers) {
  struct Measured {
    std::int64_t m, n, k;
    BlockShape b;
    const char* config;
  };
  for (const auto& [m, n, k, b, config] :
       {Measured{1499, 2048, 2368, kBlock128x128, "128x192x4 1x128.128x128 e4m3.e4m3"},
        {735, 4096, 2048, kBlock128x128, "128x192x4 1x128.128x128 e4m3.e4m3"},
        {739, 4096, 384, kBlock128x128, "128x192x4 1x128.128x128 e4m3.e4m3"},
        {7223, 640, 2048, kBlock128x128, "128x160x5 1x128.128x128 e4m3.e4m3"},
        {1686, 1280, 14336, kBlock128x128, "128x160x5 1x128.128x128 e4m3.e4m3"},
        {2048, 2368, 1499, kBlock128x128, "128x160x5 1x128.128x128 e4m3.e4m3"},
        {1536, 640, 16996, kBlock1x128, "64x128x8 1x128.1x128 e4m3.e4m3 paired"},
        {896, 640, 2932, kBlock1x128, "64x128x8 1x128.1x128 e4m3.e4m3 paired"},
        {640, 352, 21035, kBlock1x128, "64x64x10 1x128.1x128 e4m3.e4m3 paired"},
        {384, 384, 18309, kBlock1x128, "64x64x10 1x128.1x128 e4m3.e4m3 paired"},
        {640, 2048, 7223, kBlock1x128, "128x128x6 1x128.1x128 e4m3.e4m3"},
        {985, 4999, 2057, kBlock1x128, "128x128x6 1x128.1x128 e4m3.e4m3"}}) {
    GemmProblem problem = make_problem(m, n, k, b);
    problem.out_dtype = Dtype::bf16;
    EXPECT_EQ(name(choose_sm90_gemm(problem, kH200)), config) << describe(problem);
  }
}

// Products that are not promoted: the quickest of all tiles, measured side by side on an H200 in turns of 50 ms. In bf16
// joined waves of 128x256; in FP8 consumers in turn, 128x128 only where it fills the last wave better.
TEST(Sm90GemmChoice, TakesWhatWasMeasuredQuickestWithoutPromotion) {
  struct Measured {
    std::int64_t m, n, k;
    Major a, b;
    const char* config;
  };
  for (const auto& [m, n, k, a, b, config] :
       {Measured{4096, 4096, 4096, Major::k, Major::k, "128x256x4 bf16.bf16 k.k"},
        {8192, 106496, 16384, Major::k, Major::k, "128x256x4 bf16.bf16 k.k"},
        {8192, 8192, 8192, Major::k, Major::mn, "128x256x4 bf16.bf16 k.mn"},
        {8192, 8192, 57344, Major::k, Major::mn, "128x256x4 bf16.bf16 k.mn"},
        {12288, 4096, 4096, Major::mn, Major::mn, "128x256x4 bf16.bf16 mn.mn"},
        {8192, 28672, 16384, Major::mn, Major::mn, "128x256x4 bf16.bf16 mn.mn"}}) {
    GemmProblem problem = make_problem(m, n, k, kBlock128x128);
    problem.a = {Dtype::bf16, {}, a};
    problem.b = {Dtype::bf16, {}, b};
    EXPECT_EQ(name(choose_sm90_gemm(problem, kH200)), config) << describe(problem);
    problem.m = 64;
    EXPECT_LE(choose_sm90_gemm(problem, kH200).tile_m, a == Major::k ? 64 : 128);
  }
  for (const auto& [m, n, k, a, b, config] :
       {Measured{4096, 4096, 4096, Major::k, Major::k, "128x128x6 unpromoted e4m3.e4m3 in turn"},
        {32768, 4096, 4096, Major::k, Major::k, "128x192x5 unpromoted e4m3.e4m3 cluster in turn"},
        {8192, 8192, 29568, Major::k, Major::k,
         "128x192x5 unpromoted e4m3.e4m3 cluster in turn"}}) {
    GemmProblem problem = make_problem(m, n, k, kBlock128x128);
    problem.a = problem.b = {Dtype::e4m3, kEachRow, Major::k};
    problem.fast_accumulation = true;
    EXPECT_EQ(name(choose_sm90_gemm(problem, kH200)), config) << describe(problem);
  }
}

// A wave of 192 columns has no other store for 16-bit rows that are not whole 16 bytes. f32 rows of any length are
// stored alike by all tiles.
TEST(Sm90GemmChoice, LeavesOddRowsToTilesThatStoreThemWhole) {
  GemmProblem problem = make_problem(717, 8191, 4905, kBlock128x128, Dtype::bf16);
  problem.a = problem.b = {Dtype::e4m3, kEachRow, Major::k};
  problem.fast_accumulation = true;
  const auto chosen = [&] { return name(choose_sm90_gemm(problem, kH200)); };
  const std::string wide = "128x192x5 unpromoted e4m3.e4m3 cluster in turn";
  EXPECT_EQ(chosen(), "128x128x6 unpromoted e4m3.e4m3 in turn");
  problem.out_dtype = Dtype::f32;
  EXPECT_EQ(chosen(), wide);
  problem.out_dtype = Dtype::bf16;
  problem.n = 8192;
  EXPECT_EQ(chosen(), wide);
}

// Scales of whole rows, promoted and not.
TEST(Sm90GemmChoice, TellsPromotedFromUnpromotedProducts) {
  GemmProblem problem = make_problem(4096, 4096, 4096, kBlock128x128);
  problem.a.block = problem.b.block = kEachRow;
  EXPECT_EQ(choose_sm90_gemm(problem, kH200).promotion, Promotion::sum);
  problem.fast_accumulation = true;
  EXPECT_EQ(choose_sm90_gemm(problem, kH200).promotion, Promotion::none);
}

TEST(Sm90GemmChoice, PairsColumnsWhereNIsInGroups) {
  for (const std::int64_t n : {8192, 8176, 8191, 8184}) {
    const Sm90GemmConfig& config =
        choose_sm90_gemm(make_problem(8192, n, 8192, kBlock1x128), kH200);
    EXPECT_EQ(config.columns == Columns::paired, n % 16 == 0)
        << "N = " << n << ": " << name(config);
  }
}

TEST(Sm90GemmChoice, PredictsMoreClocksForMoreWork) {
  const Sm90GemmConfig config;
  const double base =
      sm90_gemm_clocks(make_problem(4096, 4096, 4096, kBlock128x128), config, kH200);
  for (const GemmProblem& more : {make_problem(8192, 4096, 4096, kBlock128x128),
                                  make_problem(4096, 8192, 4096, kBlock128x128),
                                  make_problem(4096, 4096, 8192, kBlock128x128)}) {
    EXPECT_GT(sm90_gemm_clocks(more, config, kH200), base) << describe(more);
  }
  EXPECT_GT(sm90_gemm_clocks(make_problem(4096, 4096, 4096, kBlock128x128), config, 66), base);
}

struct DenseShape {
  std::int64_t m, n, k;
};

std::vector<DenseShape> dense_shapes() {
  std::vector<DenseShape> shapes;
  std::ifstream file(OCTET_SOURCE_DIR "/cases/dense84.csv");
  std::string line;
  std::getline(file, line);  // test_id,model,op,mbs,M,N,K
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ' ', '_');
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::string skipped;
    DenseShape shape{};
    if (fields >> skipped >> skipped >> skipped >> skipped >> shape.m >> shape.n >> shape.k) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// For the three products of every layer: a large tile, and little loss in the last wave.
TEST(Sm90GemmChoice, TakesLargeTilesForTheDenseShapes) {
  const std::vector<DenseShape> shapes = dense_shapes();
  ASSERT_EQ(shapes.size(), 84u) << "in " OCTET_SOURCE_DIR "/cases/dense84.csv";
  double worst_squares = 1, worst_rows = 1;
  for (const DenseShape& s : shapes) {
    const GemmProblem forward = make_problem(s.m, s.n, s.k, kBlock128x128);
    const GemmProblem dgrad = make_problem(s.m, s.k, s.n, kBlock128x128);
    const GemmProblem wgrad = make_problem(s.n, s.k, s.m, kBlock1x128);
    std::printf("%6lldx%6lldx%5lld", static_cast<long long>(s.m), static_cast<long long>(s.n),
                static_cast<long long>(s.k));
    for (const GemmProblem* problem : {&forward, &dgrad, &wgrad}) {
      const Sm90GemmConfig& config = choose_sm90_gemm(*problem, kH200);
      const double utilisation = predicted_utilisation(*problem, config);
      double& worst = problem == &wgrad ? worst_rows : worst_squares;
      worst = std::min(worst, utilisation);
      std::printf("  %dx%d %.2f", config.tile_m, config.tile_n, utilisation);
      EXPECT_EQ(config.tile_m * config.tile_n, 256 * 128)
          << describe(*problem) << ": " << name(config);
    }
    std::printf("\n");
  }
  EXPECT_GT(worst_squares, 0.65) << "of the tensor cores, predicted";
  EXPECT_GT(worst_rows, 0.50);
}

}  // namespace
}  // namespace octet::testing
