// The configurations of the Hopper product over groups and the choice among them, without a GPU.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/widths.hpp"

#include <set>

namespace octet::testing {
namespace {

constexpr int kH200 = 132;  // multiprocessors

GroupedGemmProblem over_rows(std::int64_t groups, std::int64_t rows, std::int64_t n,
                             std::int64_t k) {
  GroupedGemmProblem problem;
  problem.groups = groups;
  problem.rows = rows;
  problem.n = n;
  problem.k = k;
  return problem;
}

GroupedGemmProblem over_contraction(std::int64_t groups, std::int64_t rows, std::int64_t n,
                                    std::int64_t k, BlockShape block) {
  GroupedGemmProblem problem = over_rows(groups, rows, n, k);
  problem.over = GroupedOver::contraction;
  problem.b.block = block;
  return problem;
}

std::string chosen(const GroupedGemmProblem& problem, int multiprocessors = kH200) {
  return name(choose_sm90_grouped_gemm(problem, multiprocessors));
}

TEST(Sm90GroupedGemmConfigs, ReadBackWhatTheyPrint) {
  std::set<std::string> names;
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    const auto read = parse_sm90_grouped_gemm_config(name(config));
    ASSERT_TRUE(read.has_value()) << name(config);
    EXPECT_TRUE(*read == config) << name(config);
    names.insert(name(config));
  }
  EXPECT_EQ(names.size(), std::size(sm90_grouped_gemm_configs())) << "two print the same";
  EXPECT_FALSE(parse_sm90_grouped_gemm_config("256x128x4 1x128.128x128 e4m3.e4m3"));
}

// A tile that begins up to three rows behind the first scale that was loaded.
TEST(Sm90GroupedGemmConfigs, HaveRoomForScalesFromAMultipleOfFourOn) {
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    const Sm90GemmConfig& c = config.gemm;
    if (!has_slice_scales(c)) continue;
    const int slots = a_scale_slots(c, config.groups);
    const int more = config.groups == Groups::rows ? kScalesAtOnce : 0;
    EXPECT_GE(slots, c.tile_m + more) << name(config);
    EXPECT_EQ(slots * 4 % 128, 0) << "boxes start on 128-byte boundaries";
    EXPECT_EQ(c.tile_m * 4 % 128, 0) << "the second box too";
    if (c.promotion == Promotion::one_by_one) continue;
    EXPECT_GE(kShiftSlot, b_scale_floats(c)) << "the shift would be overwritten by scales";
    EXPECT_LT(kShiftSlot, b_scale_slots(c)) << name(config);
  }
}

TEST(Sm90GroupedGemmConfigs, FitAMultiprocessorWithTheirSlots) {
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    EXPECT_LE(shared_bytes(config), kSharedLimit) << name(config);
    const Sm90SharedPlan plan = shared_plan(config.gemm, config.groups);
    EXPECT_GE(shared_bytes(config), plan.bytes + 1023 + 32 + 8 * 32) << name(config);
    EXPECT_EQ(plan.bytes % 16, 0) << "entries are copied 16 bytes at a time";
    EXPECT_LE(config.gemm.stages + 2, kTileSlots) << name(config);
  }
}

// Groups that end in the middle of a tile waste half of it: below some 4096 rows per group this outweighs
// what a cluster saves.
TEST(Sm90GroupedGemmChoice, TakesSmallTilesForSmallGroups) {
  for (const std::int64_t rows : {512, 1024, 2048}) {
    EXPECT_EQ(chosen(over_rows(32, 32 * rows, 4096, 7168)),
              "rows 128x256x4 1x128.128x128 e4m3.e4m3 or narrower")
        << rows;
  }
  for (const std::int64_t rows : {4096, 8192, 16384}) {
    EXPECT_EQ(chosen(over_rows(32, 32 * rows, 4096, 7168)),
              "rows 256x128x4 1x128.128x128 e4m3.e4m3 cluster")
        << rows;
  }
}

// A buffer of four times the rows is no reason for larger tiles if the caller says so.
TEST(Sm90GroupedGemmChoice, GoesByTheExpectedRows) {
  GroupedGemmProblem problem = over_rows(32, 32 * 8192, 4096, 7168);
  problem.expected_rows = 32 * 1024;
  EXPECT_EQ(chosen(problem), "rows 128x256x4 1x128.128x128 e4m3.e4m3 or narrower");
}

// Each was the fastest width on an H200.
TEST(Sm90GroupedGemmWidths, FollowTheSizesOfTheGroups) {
  const GroupedGemmProblem one = over_rows(1, 512, 4096, 14336);
  EXPECT_EQ(width_taken(one, {512}, kH200), 128) << "128 tiles for 132 multiprocessors";
  const GroupedGemmProblem two = over_rows(2, 1024, 2816, 2048);
  EXPECT_EQ(width_taken(two, {512, 512}, kH200), 192) << "120 tiles";
  EXPECT_EQ(width_taken(two, {600, 424}, kH200), 256)
      << "99 tiles; 135 of 192 columns take two rounds";
  const GroupedGemmProblem five = over_rows(5, 2560, 5120, 3072);
  EXPECT_EQ(width_taken(five, {512, 512, 512, 512, 512}, kH200), 160)
      << "640 tiles, 5 rounds of 132";
  const GroupedGemmProblem large = over_rows(32, 65536, 4096, 7168);
  EXPECT_EQ(width_taken(large, std::vector<std::int64_t>(32, 2048), kH200), 256);
}

// By the model, not measured: 16-bit widths by sizes are run by name.
TEST(Sm90GroupedGemmWidths, FollowTheSizesIn16BitsToo) {
  for (const Major major : {Major::k, Major::mn}) {
    GroupedGemmProblem two = over_rows(2, 1024, 2048, 2816);
    two.a = {Dtype::bf16, kUnscaled, Major::k};
    two.b = {Dtype::bf16, kUnscaled, major};
    EXPECT_EQ(width_taken(two, {512, 512}, kH200), 128) << "128 tiles for 132 multiprocessors";
    EXPECT_EQ(width_taken(two, {600, 424}, kH200), 192)
        << "99 tiles; 144 of 128 columns take two rounds";
    EXPECT_EQ(width_taken(two, {5000, 5000}, kH200), 256);
    EXPECT_EQ(chosen(two).find("or narrower"), std::string::npos) << chosen(two);
  }
}

// What the GPU tests of the kernels of all widths run. In FP8 a fixed width by name runs in that kernel as well.
TEST(Sm90GroupedGemmWidths, AreAllReachedByTheCasesThatWantThem) {
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (config.width != Width::by_sizes || is_fp8(config.gemm.a)) continue;
    for (const Sm90GroupedGemmConfig& width : sm90_row_widths(config.gemm)) {
      for (const std::int64_t slices : {1, 7}) {
        const WidthCase one = case_of_width(width.gemm, slices);
        EXPECT_EQ(width_taken(one.problem, one.sizes, kFewMultiprocessors), width.gemm.tile_n)
            << name(config) << ", " << slices << " slices";
      }
    }
  }
}

// 16-bit rows of 3071 elements would leave 128x192 element by element.
TEST(Sm90GroupedGemmChoice, LeavesOddRowsToTilesThatStoreThem) {
  for (const auto& [groups, rows, n, k] :
       std::vector<std::array<std::int64_t, 4>>{{8, 4096, 1001, 512},
                                                {3, 1500, 3071, 512},
                                                {1, 2048, 3071, 1024},
                                                {5, 2560, 3071, 5120}}) {
    GroupedGemmProblem problem = over_rows(groups, rows, n, k);
    problem.a = problem.b = {Dtype::bf16, kUnscaled, Major::k};
    EXPECT_EQ(chosen(problem).find("128x192"), std::string::npos) << chosen(problem);
  }
  GroupedGemmProblem whole = over_rows(2, 1024, 2048, 2816);
  whole.a = whole.b = {Dtype::bf16, kUnscaled, Major::k};
  EXPECT_EQ(chosen(whole), "rows 128x192x5 bf16.bf16 k.k");
  whole.n -= 1;
  EXPECT_EQ(chosen(whole).find("128x192"), std::string::npos) << chosen(whole);
}

// A list without clocks is not to be taken, whatever its tiles.
TEST(Sm90GroupedGemmWidths, AreOnlyThoseOffered) {
  EXPECT_EQ(quickest_list({1000, 10, 10}, {0, 7, 7}, Divisor(4)), 1) << "of equals the first";
  EXPECT_EQ(quickest_list({1, 1, 1}, {0, 0, 5}, Divisor(4)), 2);
  EXPECT_EQ(quickest_list({0, 0}, {0, 5}, Divisor(4)), 1) << "no tiles at all";
  EXPECT_EQ(quickest_list({1 << 30, 1 << 30}, {1 << 30, 1 << 29}, Divisor(1)), 1) << "in 64 bits";
}

// 1408 columns are 11 tiles of 128, which neither pairs nor tiles of 256 divide.
TEST(Sm90GroupedGemmChoice, TakesSingleTilesForAnOddNumberOfColumns) {
  EXPECT_EQ(chosen(over_rows(16, 16 * 16384, 1408, 2048)),
            "rows 256x128x4 1x128.128x128 e4m3.e4m3");
  EXPECT_EQ(chosen(over_contraction(64, 64 * 4096, 2048, 1408, kBlock128x128)),
            "contraction 256x128x4 1x128.128x128 e4m3.e4m3");
}

// Token blocks gain nothing from clusters.
TEST(Sm90GroupedGemmChoice, TakesLargeTilesForGradients) {
  EXPECT_EQ(chosen(over_contraction(32, 32 * 2048, 4096, 7168, kBlock128x128)),
            "contraction 256x128x4 1x128.128x128 e4m3.e4m3");
  EXPECT_EQ(chosen(over_contraction(32, 32 * 2048, 4096, 7168, kBlock1x128)),
            "contraction 256x128x4 1x128.1x128 e4m3.e4m3 paired");
  EXPECT_EQ(chosen(over_contraction(32, 32 * 2048, 4096, 7160, kBlock1x128)),
            "contraction 128x128x6 1x128.1x128 e4m3.e4m3")
      << "7160 features are not whole groups of 16";
}

TEST(Sm90GroupedGemmChoice, NeedsTwoMultiprocessorsForACluster) {
  EXPECT_EQ(chosen(over_rows(2, 65536, 4096, 7168), 1).find("cluster"), std::string::npos);
}

// Every mix of formats and both kinds of blocks, whatever the extents.
TEST(Sm90GroupedGemmChoice, HasAKernelForEveryProblemItTakes) {
  for (const Dtype a : {Dtype::e4m3, Dtype::e5m2}) {
    for (const Dtype b : {Dtype::e4m3, Dtype::e5m2}) {
      for (const std::int64_t extent : {1, 100, 128, 4096}) {
        for (const int multiprocessors : {1, 2, 132}) {
          for (GroupedGemmProblem problem :
               {over_rows(3, 700, extent, extent),
                over_contraction(3, 700, extent, extent, kBlock128x128),
                over_contraction(3, 700, extent, extent, kBlock1x128)}) {
            problem.a.dtype = a;
            problem.b.dtype = b;
            const Sm90GroupedGemmConfig& config =
                choose_sm90_grouped_gemm(problem, multiprocessors);
            EXPECT_TRUE(sm90_grouped_gemm_fits(problem, config, multiprocessors));
            EXPECT_GE(sm90_most_tiles(problem, config), 1);
          }
        }
      }
    }
  }
}

TEST(Sm90GroupedGemm, SaysWhatItDoesNotTake) {
  const auto refusal = [](const GroupedGemmProblem& given) {
    GroupedGemmProblem problem = given;
    problem.device = {DeviceType::cuda, 0};
    Machine hopper;
    hopper.sm_major = 9;
    hopper.multiprocessors = kH200;
    return kGroupedGemmCudaSm90Wgmma.refuse(problem, hopper);
  };
  EXPECT_EQ(refusal(over_rows(4, 1000, 256, 512)), "");
  GroupedGemmProblem plain = over_rows(4, 1000, 256, 512);
  plain.a = plain.b = {Dtype::f32};
  EXPECT_EQ(refusal(plain), "operands are f32; FP8, bf16 and f16 are taken");
  plain.a = plain.b = {Dtype::bf16};
  EXPECT_EQ(refusal(plain), "");
  plain.k = 500;
  EXPECT_EQ(refusal(plain), "K must be a multiple of 8, got 500");
  plain.k = 512;
  plain.a.major = Major::mn;
  EXPECT_EQ(refusal(plain), "16-bit rows of a must be contiguous");
  plain.a.major = Major::k;
  plain.n = 100;
  EXPECT_EQ(refusal(plain), "");
  plain.b.major = Major::mn;
  EXPECT_EQ(refusal(plain), "N must be a multiple of 8, got 100");
  GroupedGemmProblem rows = over_rows(4, 1000, 256, 512);
  rows.b.block = kBlock1x128;
  EXPECT_EQ(refusal(rows), "over rows, blocks of b must be 128x128");
  GroupedGemmProblem square = over_contraction(4, 1000, 256, 512, kBlock1x128);
  square.a.block = kBlock128x128;
  EXPECT_EQ(refusal(square), "blocks of a must be 1x128");
  EXPECT_EQ(refusal(over_rows(1, 1 << 30, 1 << 18, 128)),
            "the tiles of all groups must be fewer than 2^30");
}

}  // namespace
}  // namespace octet::testing
