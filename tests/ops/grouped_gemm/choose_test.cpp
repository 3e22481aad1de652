// The configurations of the Hopper product over groups and the choice among them, without a GPU.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/sm90/wgmma.hpp"

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
  for (const Sm90GroupedGemmConfig& config : kSm90GroupedGemmConfigs) {
    const auto read = parse_sm90_grouped_gemm_config(name(config));
    ASSERT_TRUE(read.has_value()) << name(config);
    EXPECT_TRUE(*read == config) << name(config);
    names.insert(name(config));
  }
  EXPECT_EQ(names.size(), std::size(kSm90GroupedGemmConfigs)) << "two print the same";
  EXPECT_FALSE(parse_sm90_grouped_gemm_config("256x128x4 1x128.128x128 e4m3.e4m3"));
}

TEST(Sm90GroupedGemmConfigs, FitAMultiprocessorWithTheirSlots) {
  for (const Sm90GroupedGemmConfig& config : kSm90GroupedGemmConfigs) {
    EXPECT_LE(shared_bytes(config), kSharedLimit) << name(config);
    EXPECT_GE(shared_bytes(config), shared_plan(config.gemm).bytes + 1023 + 32 + 8 * 32)
        << name(config);
    EXPECT_EQ(shared_plan(config.gemm).bytes % 16, 0) << "entries are copied 16 bytes at a time";
    EXPECT_LE(config.gemm.stages + 2, kTileSlots) << name(config);
  }
}

// Groups that end in the middle of a tile waste half of it: below some 4096 rows per group this outweighs
// what a cluster saves.
TEST(Sm90GroupedGemmChoice, TakesSmallTilesForSmallGroups) {
  for (const std::int64_t rows : {512, 1024, 2048}) {
    EXPECT_EQ(chosen(over_rows(32, 32 * rows, 4096, 7168)),
              "rows 128x256x4 1x128.128x128 e4m3.e4m3")
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
  EXPECT_EQ(chosen(problem), "rows 128x256x4 1x128.128x128 e4m3.e4m3");
}

// 1408 columns are 11 tiles of 128, which neither pairs nor tiles of 256 divide.
TEST(Sm90GroupedGemmChoice, TakesSingleTilesForAnOddNumberOfColumns) {
  EXPECT_EQ(chosen(over_rows(16, 16 * 16384, 1408, 2048)),
            "rows 256x128x4 1x128.128x128 e4m3.e4m3");
  EXPECT_EQ(chosen(over_contraction(64, 64 * 4096, 2048, 1408, kBlock128x128)),
            "contraction 256x128x4 1x128.128x128 e4m3.e4m3");
}

TEST(Sm90GroupedGemmChoice, TakesPairedClustersForGradients) {
  EXPECT_EQ(chosen(over_contraction(32, 32 * 2048, 4096, 7168, kBlock128x128)),
            "contraction 256x128x4 1x128.128x128 e4m3.e4m3 cluster");
  EXPECT_EQ(chosen(over_contraction(32, 32 * 2048, 4096, 7168, kBlock1x128)),
            "contraction 256x128x4 1x128.1x128 e4m3.e4m3 paired cluster");
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
  plain.a = plain.b = {Dtype::bf16};
  EXPECT_EQ(refusal(plain), "operands that are not FP8 have no CUDA kernel yet");
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
