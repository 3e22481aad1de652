// What the Hopper forward decides without a GPU: the order of its tiles, its shared memory, and what it takes.
#include "device/cuda_runtime.hpp"
#include "ops/attention/sm90/forward/forward.hpp"
#include "ops/attention/sm90/forward/work.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace octet {
namespace {

namespace kernels = attention;

TEST(AttentionForwardTiles, EveryTileOfEveryHeadComesOnceAndTheLongestFirst) {
  for (const std::int32_t tiles : {1, 2, 7}) {
    for (const std::int32_t heads : {1, 5, 12}) {
      for (const std::int32_t section : {1, 3, 4, 12}) {
        if (section > heads) continue;
        const kernels::DenseTiles dense{tiles, heads, section};
        std::set<std::pair<std::int32_t, std::int32_t>> seen;
        std::int32_t last_tile = tiles, last_section = 0;
        for (std::int32_t item = 0; item < dense.count(); ++item) {
          const kernels::DenseTile tile = dense_tile(dense, item);
          ASSERT_TRUE(tile.head >= 0 && tile.head < heads && tile.tile >= 0 && tile.tile < tiles);
          seen.emplace(tile.head, tile.tile);
          if (tile.head / section != last_section) {
            ASSERT_EQ(tile.head / section, ++last_section) << "sections follow each other";
            last_tile = tiles;
          }
          ASSERT_LE(tile.tile, last_tile);
          last_tile = tile.tile;
        }
        EXPECT_EQ(static_cast<std::int32_t>(seen.size()), dense.count());
      }
    }
  }
}

TEST(AttentionForwardTiles, SectionsAreWholeGroupsOfAboutEqualSize) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  EXPECT_EQ(kernels::section_heads(32, 1, 2 * kMegabyte, 32 * kMegabyte), 16);
  EXPECT_EQ(kernels::section_heads(32, 4, 4 * kMegabyte, 32 * kMegabyte), 32);
  EXPECT_EQ(kernels::section_heads(36, 4, 4 * kMegabyte, 32 * kMegabyte), 20);
  EXPECT_EQ(kernels::section_heads(28, 7, 64 * kMegabyte, 32 * kMegabyte), 7);
  EXPECT_EQ(kernels::section_heads(8, 8, 0, 32 * kMegabyte), 8);
}

TEST(AttentionForwardPlan, SharedMemoryFitsAndIsAligned) {
  for (const Sm90AttentionForwardConfig& config : sm90_attention_forward_configs()) {
    const kernels::ForwardSharedPlan plan = kernels::shared_plan(config);
    EXPECT_LE(kernels::shared_bytes(config), kernels::kSharedLimit) << name(config);
    EXPECT_EQ(plan.k % kernels::kSharedAlignment, 0) << name(config);
    EXPECT_EQ(plan.v % kernels::kSharedAlignment, 0) << name(config);
    EXPECT_EQ(kernels::k_bytes(config) % kernels::kSharedAlignment, 0) << name(config);
    EXPECT_EQ(kernels::v_bytes(config) % kernels::kSharedAlignment, 0) << name(config);
    EXPECT_EQ(plan.barriers % 8, 0) << name(config);
    EXPECT_LE(plan.q + config.query_slots * kernels::q_bytes(config), plan.k);
    EXPECT_LE(config.dim_v, config.dim_qk) << "results lie where the queries were";
    const int registers = kernels::loader_registers(config) +
                          kernels::consumers(config) * kernels::consumer_registers(config);
    EXPECT_LE(registers * 128, 65536) << name(config);
  }
}

AttentionProblem problem_of(std::int64_t dim_qk, std::int64_t dim_v, Dtype dtype = Dtype::bf16) {
  return {.seq_q = 1000,
          .seq_kv = 1000,
          .heads_q = 4,
          .heads_kv = 2,
          .dim_qk = dim_qk,
          .dim_v = dim_v,
          .dtype = dtype,
          .device = {DeviceType::cuda, 0}};
}

TEST(AttentionForwardPlan, TheNarrowestConfigurationThatHoldsAHeadRunsIt) {
  const cuda::Pretend h200(cuda::kH200);
  for (const auto& [dim_qk, dim_v, tile_qk] :
       {std::tuple<std::int64_t, std::int64_t, int>(64, 64, 64),
        {8, 8, 64},
        {72, 8, 128},
        {64, 128, 128},
        {128, 128, 128},
        {136, 64, 192},
        {192, 128, 192}}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      const AttentionProblem problem = problem_of(dim_qk, dim_v, dtype);
      const Sm90AttentionForwardConfig& config = choose_sm90_attention_forward(problem);
      EXPECT_EQ(config.dim_qk, tile_qk);
      EXPECT_EQ(config.dtype, dtype);
      const AttentionForwardPlan plan = plan_attention_forward(problem);
      EXPECT_EQ(plan.implementation, "cuda_sm90_wgmma");
      EXPECT_EQ(plan.configuration, name(config));
      EXPECT_EQ(plan_attention_forward(problem, {.configuration = name(config)}).configuration,
                name(config));
    }
  }
}

TEST(AttentionForwardPlan, RefusesWhatTheKernelsDoNotHave) {
  const cuda::Pretend h200(cuda::kH200);
  const auto plan = [](const AttentionProblem& problem) {
    return plan_attention_forward(problem, {"cuda_sm90_wgmma"});
  };
  EXPECT_THROW(plan(problem_of(64, 64, Dtype::f32)), Error);
  EXPECT_THROW(plan(problem_of(60, 64)), Error);
  EXPECT_THROW(plan(problem_of(256, 128)), Error);
  EXPECT_THROW(plan(problem_of(128, 136)), Error);
  AttentionProblem long_one = problem_of(64, 64);
  long_one.seq_q = (std::int64_t{1} << 28) + 1;
  EXPECT_THROW(plan(long_one), Error);
}

TEST(AttentionForwardPlan, RaggedSequencesNeedRoomForTheListOfTheirTiles) {
  AttentionProblem problem = problem_of(128, 128);
  const Sm90AttentionForwardConfig& config = choose_sm90_attention_forward(problem);
  EXPECT_EQ(sm90_attention_forward_workspace(problem, config), kernels::kListBegin);
  problem.offsets_dtype = Dtype::i32;
  problem.batch = 9;
  problem.total_q = problem.total_kv = 1000;
  EXPECT_EQ(sm90_attention_forward_workspace(problem, config),
            kernels::kListBegin + (8 + 9 + 1) * sizeof(kernels::SequenceTile));
}

}  // namespace
}  // namespace octet
