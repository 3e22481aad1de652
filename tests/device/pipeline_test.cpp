// The ring of stages never deadlocks, never hands out a stage before it is full and never
// overwrites one in use. Tested with random schedules of every warp, and with every schedule of
// small cases.
#include "device/pipeline_model.hpp"
#include "ops/gemm/sm90/wgmma.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <gtest/gtest.h>

#include <random>
#include <unordered_set>
#include <vector>

namespace octet::testing {
namespace {

std::string describe(const Pipeline& p) {
  return std::to_string(p.stages) + " stages, " + std::to_string(p.slices) + " slices, " +
         std::to_string(p.tiles) + " tiles, " + std::to_string(p.warps) + " warps, " +
         (p.restarts ? "tiles begin at stage 0, " : "the ring continues, ") +
         std::to_string(p.blocks) + " blocks" + (p.promoted ? "" : ", not promoted");
}

std::vector<int> ready_agents(const PipelineModel& model) {
  std::vector<int> ready;
  for (int agent = 0; agent < model.agents(); ++agent) {
    if (model.can_step(agent)) ready.push_back(agent);
  }
  return ready;
}

// Runs one random schedule; returns "" if it ends well. One agent is often far slower than the
// others, like a warp that waits for its tensor core.
std::string run_random(const Pipeline& pipeline, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  PipelineModel model(pipeline);
  const auto slow = static_cast<int>(random() % static_cast<std::uint64_t>(model.agents() + 1));
  while (!model.finished()) {
    const std::vector<int> ready = ready_agents(model);
    if (ready.empty()) return "deadlock";
    int agent = ready[random() % ready.size()];
    if (agent == slow && random() % 16 != 0) agent = ready[random() % ready.size()];
    model.step(agent);
    if (!model.violation().empty()) return model.violation();
  }
  return "";
}

// The same for every possible schedule.
std::string run_every(const Pipeline& pipeline) {
  std::vector<PipelineModel> open{PipelineModel(pipeline)};
  std::unordered_set<std::string> seen{open.back().key()};
  while (!open.empty()) {
    const PipelineModel model = open.back();
    open.pop_back();
    const std::vector<int> ready = ready_agents(model);
    if (ready.empty() && !model.finished()) return "deadlock";
    for (const int agent : ready) {
      PipelineModel next = model;
      next.step(agent);
      if (!next.violation().empty()) return next.violation();
      if (seen.insert(next.key()).second) open.push_back(next);
    }
  }
  return "";
}

TEST(Pipeline, HoldsOnRandomSchedulesOfEveryWarp) {
  for (int stages = 4; stages <= PipelineModel::kMostStages; ++stages) {
    for (int slices = 1; slices <= 20; ++slices) {
      for (int tiles = 0; tiles <= 5; ++tiles) {
        for (std::uint64_t seed = 1; seed <= 4; ++seed) {
          const Pipeline pipeline{stages, slices, tiles, 8, seed % 2 == 0};
          ASSERT_EQ(run_random(pipeline, seed), "") << describe(pipeline) << ", seed " << seed;
        }
      }
    }
  }
}

// Each consumer is one agent, since all warps of a warpgroup arrive together.
TEST(Pipeline, HoldsOnEveryScheduleOfSmallCases) {
  for (int stages = 4; stages <= 6; ++stages) {
    for (int slices = 1; slices <= 7; ++slices) {
      for (int tiles = 0; tiles <= 3; ++tiles) {
        for (const bool restarts : {true, false}) {
          const Pipeline pipeline{stages, slices, tiles, 2, restarts};
          ASSERT_EQ(run_every(pipeline), "") << describe(pipeline);
        }
      }
    }
  }
}

TEST(Pipeline, HoldsInAClusterOfTwo) {
  for (const bool restarts : {true, false}) {
    for (int slices = 1; slices <= 12; ++slices) {
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Pipeline pipeline{4, slices, 3, 8, restarts, Fault::none, 2};
        ASSERT_EQ(run_random(pipeline, seed), "") << describe(pipeline) << ", seed " << seed;
      }
    }
    for (const int slices : {1, 2}) {
      const Pipeline pipeline{2, slices, 2, 1, restarts, Fault::none, 2};
      ASSERT_EQ(run_every(pipeline), "") << describe(pipeline);
    }
  }
}

// The cases above cover the ring of every compiled configuration. The ring also holds if a tile
// ends in the stage that the next one may start with.
TEST(Pipeline, CoversEveryConfiguration) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    EXPECT_GE(config.stages, 4) << name(config);
    EXPECT_LE(config.stages, PipelineModel::kMostStages) << name(config);
    EXPECT_LE(config.cluster, PipelineModel::kMostBlocks) << name(config);
    Pipeline pipeline{config.stages,         config.stages + 1,       3,
                      4 * consumers(config), stages_unrolled(config), Fault::none,
                      config.cluster};
    pipeline.promoted = config.promotion != Promotion::none;
    pipeline.staged = is_staged(config);
    pipeline.staged_in_ring = stages_in_ring(config);
    pipeline.in_turn = config.in_turn;
    EXPECT_EQ(run_random(pipeline, 1), "") << name(config);
    pipeline.tiles = 2;
    pipeline.warps = consumers(config);
    pipeline.blocks = 1;
    EXPECT_EQ(run_every(pipeline), "") << name(config);
  }
}

// Consumers that release a stage under the products of the next one.
Pipeline unpromoted(int stages, int slices, int tiles, int warps, int blocks = 1,
                    Fault fault = Fault::none) {
  Pipeline pipeline{stages, slices, tiles, warps, true, fault, blocks};
  pipeline.promoted = false;
  return pipeline;
}

TEST(Pipeline, HoldsWithoutPromotion) {
  for (int slices = 1; slices <= 13; ++slices) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      for (const int stages : {4, 6, 10}) {
        for (const int blocks : {1, 2}) {
          Pipeline pipeline = unpromoted(stages, slices, 4, 8, blocks);
          pipeline.staged = stages == 4;
          ASSERT_EQ(run_random(pipeline, seed), "") << describe(pipeline) << ", seed " << seed;
        }
      }
    }
    if (slices > 7) continue;
    for (const bool staged : {false, true}) {
      Pipeline pipeline = unpromoted(4, slices, 3, 2);
      pipeline.staged = staged;
      ASSERT_EQ(run_every(pipeline), "") << describe(pipeline);
    }
  }
}

// Consumers that multiply whole tiles in turn.
Pipeline in_turn(int stages, int slices, int tiles, int warps, int blocks = 1,
                 Fault fault = Fault::none) {
  Pipeline pipeline = unpromoted(stages, slices, tiles, warps, blocks, fault);
  pipeline.in_turn = true;
  return pipeline;
}

TEST(Pipeline, HoldsWhereConsumersTakeTilesInTurn) {
  for (const int stages : {4, 5, 6}) {
    for (int slices = 1; slices <= 13; ++slices) {
      for (int tiles = 1; tiles <= 5; ++tiles) {
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          for (const int blocks : {1, 2}) {
            const Pipeline pipeline = in_turn(stages, slices, tiles, 8, blocks);
            ASSERT_EQ(run_random(pipeline, seed), "") << describe(pipeline) << ", seed " << seed;
          }
        }
        if (slices > 7 || tiles > 4) continue;
        const Pipeline pipeline = in_turn(stages, slices, tiles, 2);
        ASSERT_EQ(run_every(pipeline), "") << describe(pipeline);
      }
    }
  }
  EXPECT_EQ(run_every(in_turn(2, 3, 3, 2, 2)), "");
}

TEST(PipelineModel, SeesConsumersThatAreNotInTurn) {
  EXPECT_NE(run_every(in_turn(4, 9, 3, 2, 1, Fault::out_of_turn)), "");
  EXPECT_NE(run_every(in_turn(4, 5, 3, 2, 1, Fault::parities_of_own_tiles)), "");
  EXPECT_NE(run_every(in_turn(4, 5, 3, 4, 1, Fault::one_arrival_short)), "");
}

// Where the last slice of a tile lies in the stage that the next tile begins in, the other consumer waits for its first
// slice two phases too early, and one parity is as good as the other.
TEST(PipelineModel, SeesATurnThatIsPassedEarly) {
  for (const int slices : {5, 9}) {
    EXPECT_EQ(run_every(in_turn(4, slices, 3, 2, 1, Fault::turn_passed_early)),
              "a stage is read that holds another slice")
        << slices;
    EXPECT_EQ(run_every(in_turn(4, slices, 3, 2)), "") << slices;
  }
  EXPECT_EQ(run_every(in_turn(4, 6, 3, 2, 1, Fault::turn_passed_early)), "") << "another stage";
}

// Tiles of groups, of different lengths, and the slots in which they are passed on.
Pipeline over_groups(int stages, int tiles, int warps, bool restarts, int blocks,
                     std::vector<int> slices, int slots = kTileSlots) {
  Pipeline pipeline{stages, 0, tiles, warps, restarts, Fault::none, blocks};
  pipeline.slices_in_turn = std::move(slices);
  pipeline.slots = slots;
  return pipeline;
}

TEST(Pipeline, HoldsForTilesOfDifferentLengths) {
  std::mt19937_64 random(3);
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    const bool restarts = stages_unrolled(config.gemm);
    const int warps = 4 * consumers(config.gemm);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      std::vector<int> slices(1 + random() % 12);
      for (int& count : slices) count = std::array{1, 2, 5}[random() % 3];
      Pipeline pipeline =
          over_groups(config.gemm.stages, 20, warps, restarts, config.gemm.cluster, slices);
      pipeline.promoted = config.gemm.promotion != Promotion::none;
      pipeline.staged = is_staged(config.gemm);
      pipeline.staged_in_ring = stages_in_ring(config.gemm);
      ASSERT_EQ(run_random(pipeline, seed), "") << name(config) << ", seed " << seed;
    }
    // All tiles of one slice: the producer is as many tiles ahead as there are stages.
    Pipeline short_tiles =
        over_groups(config.gemm.stages, 30, warps, restarts, config.gemm.cluster, {1});
    short_tiles.promoted = config.gemm.promotion != Promotion::none;
    ASSERT_EQ(run_random(short_tiles, 1), "") << name(config);
    ASSERT_EQ(run_every(over_groups(config.gemm.stages, 10, 1, restarts, 1, {1})), "");
  }
  for (const bool restarts : {true, false}) {
    ASSERT_EQ(run_every(over_groups(4, 4, 2, restarts, 1, {1, 2, 5, 1})), "");
    ASSERT_EQ(run_every(over_groups(2, 4, 1, restarts, 2, {1, 2})), "");
  }
}

// As many slots as the kernel asserts, stages + 2, are needed where the ring continues.
TEST(PipelineModel, SeesASlotThatIsWrittenWhileItIsRead) {
  EXPECT_EQ(run_every(over_groups(4, 9, 1, false, 1, {1}, 6)), "");
  EXPECT_EQ(run_every(over_groups(4, 9, 1, false, 1, {1}, 5)),
            "a slot is read that holds another tile");
  EXPECT_EQ(run_every(over_groups(4, 6, 1, true, 1, {1}, 3)), "");
  EXPECT_EQ(run_every(over_groups(4, 6, 1, true, 1, {1}, 2)),
            "a slot is read that holds another tile");
}

// Results that wait in the ring's last stage until they are stored.
Pipeline with_staging(int stages, std::vector<int> slices, int tiles, int warps, int blocks,
                      Fault fault = Fault::none, int slots = 0) {
  Pipeline pipeline = over_groups(stages, tiles, warps, true, blocks, std::move(slices), slots);
  pipeline.staged = true;
  pipeline.fault = fault;
  return pipeline;
}

TEST(Pipeline, HoldsWithResultsInTheLastStage) {
  for (int slices = 1; slices <= 13; ++slices) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      for (const int blocks : {1, 2}) {
        const Pipeline pipeline = with_staging(4, {slices}, 4, 8, blocks);
        ASSERT_EQ(run_random(pipeline, seed), "")
            << slices << " slices, " << blocks << " blocks, seed " << seed;
      }
    }
  }
  for (int slices = 1; slices <= 6; ++slices) {
    ASSERT_EQ(run_every(with_staging(4, {slices}, 3, 2, 1)), "") << slices << " slices";
  }
  for (const int slices : {1, 2, 3}) {
    ASSERT_EQ(run_every(with_staging(2, {slices}, 2, 1, 2)), "") << slices << " slices, a cluster";
  }
}

TEST(Pipeline, HoldsWithResultsOfTilesOfDifferentLengths) {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<int> slices(1 + random() % 12);
    for (int& count : slices) count = std::array{1, 2, 4, 5}[random() % 4];
    for (const int blocks : {1, 2}) {
      const Pipeline pipeline = with_staging(4, slices, 20, 8, blocks, Fault::none, kTileSlots);
      ASSERT_EQ(run_random(pipeline, seed), "") << blocks << " blocks, seed " << seed;
    }
  }
  ASSERT_EQ(run_every(with_staging(4, {1}, 10, 1, 1, Fault::none, kTileSlots)), "");
  ASSERT_EQ(run_every(with_staging(4, {1, 4, 2, 5}, 4, 2, 1, Fault::none, kTileSlots)), "");
}

// Tiles whose results have memory of their own: the producer does not wait for them, the consumers do.
TEST(Pipeline, HoldsWithResultsInMemoryOfTheirOwn) {
  const auto beside_the_ring = [](Pipeline pipeline) {
    pipeline.staged_in_ring = false;
    return pipeline;
  };
  std::mt19937_64 random(7);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<int> slices(1 + random() % 12);
    for (int& count : slices) count = std::array{1, 2, 5, 6}[random() % 4];
    for (const int stages : {4, 5}) {
      const Pipeline pipeline =
          beside_the_ring(with_staging(stages, slices, 20, 8, 1, Fault::none, kTileSlots));
      ASSERT_EQ(run_random(pipeline, seed), "") << stages << " stages, seed " << seed;
    }
  }
  ASSERT_EQ(run_every(beside_the_ring(with_staging(4, {1}, 10, 1, 1, Fault::none, kTileSlots))),
            "");
  ASSERT_EQ(run_every(beside_the_ring(with_staging(4, {5, 1}, 4, 2, 1, Fault::none, kTileSlots))),
            "");
  // The storing warp is the last to read a slot.
  EXPECT_EQ(run_every(beside_the_ring(with_staging(4, {1}, 8, 1, 1, Fault::none, 2))),
            "a slot is read that holds another tile");
  EXPECT_EQ(run_every(beside_the_ring(
                with_staging(4, {1}, 3, 2, 1, Fault::stages_over_results, kTileSlots))),
            "results overwrite those of the tile before");
}

TEST(PipelineModel, SeesResultsThatAreWrittenTooEarly) {
  EXPECT_EQ(run_every(with_staging(4, {4}, 2, 2, 1, Fault::stages_over_products)),
            "results overwrite a stage in use");
  // Where every tile uses the last stage, its load waits for the results.
  EXPECT_NE(run_every(with_staging(4, {1}, 3, 2, 1, Fault::stages_over_results)), "");
  EXPECT_EQ(run_every(with_staging(4, {4}, 3, 2, 1, Fault::stages_over_results)), "");
}

TEST(PipelineModel, SeesALoadOverResults) {
  const auto is_seen = [](const std::string& found) {
    return found == "a stage that holds results is overwritten" ||
           found == "results overwrite a loaded stage" ||
           found == "results overwrite a stage in use";
  };
  EXPECT_TRUE(is_seen(run_every(with_staging(4, {5}, 2, 2, 1, Fault::loads_over_results))));
  EXPECT_TRUE(is_seen(run_every(with_staging(2, {3}, 2, 1, 2, Fault::loads_over_others))));
}

TEST(PipelineModel, SeesAStageThatIsReleasedUnderItsOwnProducts) {
  EXPECT_NE(run_every(unpromoted(2, 5, 1, 2, 1, Fault::release_before_reading)), "");
  EXPECT_NE(run_every(unpromoted(4, 5, 2, 2, 1, Fault::release_before_reading)), "");
}

// A tile whose last slice is in stage 0, followed by one that starts there.
TEST(PipelineModel, SeesThatAwaitingTheStageAtHandDeadlocks) {
  EXPECT_EQ(run_every({4, 5, 2, 2, true, Fault::wait_before_release}), "deadlock");
  EXPECT_EQ(run_every({4, 1, 2, 2, true, Fault::wait_before_release}), "deadlock");
  EXPECT_EQ(run_every({4, 5, 1, 2, true, Fault::wait_before_release}), "") << "a single tile";
  EXPECT_EQ(run_every({4, 6, 2, 2, true, Fault::wait_before_release}), "") << "another stage";
}

TEST(PipelineModel, SeesAStageThatIsReleasedTooEarly) {
  const std::string found = run_every({4, 6, 2, 2, true, Fault::release_before_reading});
  EXPECT_TRUE(found == "a stage is read before it is full" ||
              found == "a stage is read that holds another slice")
      << found;
}

TEST(PipelineModel, SeesABarrierThatOpensOneWarpTooEarly) {
  EXPECT_NE(run_every({4, 6, 2, 2, true, Fault::one_arrival_short}), "");
}

TEST(PipelineModel, SeesABlockThatForgetsItsNeighbour) {
  const std::string found = run_every({2, 3, 1, 1, true, Fault::only_own_warps, 2});
  EXPECT_TRUE(found == "a stage in use is overwritten" ||
              found == "a stage is loaded twice at once")
      << found;
}

TEST(PipelineModel, SeesRolesThatDisagreeWhereATileBegins) {
  EXPECT_NE(run_every({4, 5, 2, 2, true, Fault::producer_never_restarts}), "");
  // If the slices of a tile fill the ring exactly, restarting makes no difference.
  EXPECT_EQ(run_every({4, 4, 2, 2, true, Fault::producer_never_restarts}), "");
}

TEST(PipelineModel, SeesARingThatIsLeftOpen) {
  EXPECT_EQ(run_every({4, 5, 2, 2, false, Fault::ring_left_open}), "deadlock");
  EXPECT_EQ(run_every({4, 5, 2, 2, true, Fault::ring_left_open}), "") << "nothing is awaited there";
}

}  // namespace
}  // namespace octet::testing
