// The shared memory of every compiled configuration: it fits, and its parts are aligned and do not
// overlap.
#include "ops/gemm/sm90/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace octet {
namespace {

struct Part {
  const char* name;
  int begin;
  int stage_bytes;  // of one stage, or one warp of the staging
  int count;
  int alignment;  // of every stage
  int end() const { return begin + stage_bytes * count; }
};

// Operands and staging are aligned for swizzle atoms, boxes of scales to 128 bytes.
std::vector<Part> parts(const Sm90GemmConfig& c) {
  const Sm90SharedPlan plan = shared_plan(c);
  return {{"a", plan.a, c.tile_m * kSliceBytes, c.stages, 1024},
          {"b", plan.b, c.tile_n * kSliceBytes, c.stages, 1024},
          {"staging", plan.staging, kStagingBytes, 4 * kConsumers, 1024},
          {"a_scales", plan.a_scales, c.tile_m * 4, c.stages, 128},
          {"b_scales", plan.b_scales, b_scale_slots(c) * 4, c.stages, 128},
          {"full", plan.full, 8, c.stages, 8},
          {"empty", plan.empty, 8, c.stages, 8}};
}

TEST(SharedPlan, FitsAMultiprocessor) {
  for (const Sm90GemmConfig& config : kSm90GemmConfigs) {
    EXPECT_LE(shared_bytes(config), 232448) << name(config);
    EXPECT_EQ(shared_plan(config).bytes % 1024, 0) << name(config);
    EXPECT_GE(shared_bytes(config), shared_plan(config).bytes + 1023) << "room to align";
  }
}

TEST(SharedPlan, AlignsEveryStage) {
  for (const Sm90GemmConfig& config : kSm90GemmConfigs) {
    for (const Part& part : parts(config)) {
      EXPECT_EQ(part.begin % part.alignment, 0) << name(config) << ", " << part.name;
      if (part.count > 1) {
        EXPECT_EQ(part.stage_bytes % part.alignment, 0) << name(config) << ", " << part.name;
      }
    }
  }
}

TEST(SharedPlan, KeepsItsPartsApart) {
  for (const Sm90GemmConfig& config : kSm90GemmConfigs) {
    std::vector<Part> sorted = parts(config);
    std::sort(sorted.begin(), sorted.end(),
              [](const Part& x, const Part& y) { return x.begin < y.begin; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      EXPECT_LE(sorted[i - 1].end(), sorted[i].begin)
          << name(config) << ": " << sorted[i - 1].name << " reaches into " << sorted[i].name;
    }
    EXPECT_LE(sorted.back().end(), shared_plan(config).bytes) << name(config);
  }
}

// A barrier expects exactly the bytes that the copies of a stage load.
TEST(SharedPlan, CountsTheBytesOfAStage) {
  for (const Sm90GemmConfig& c : kSm90GemmConfigs) {
    const int b_scales =
        c.promotion == Promotion::one_by_one ? c.tile_n * 4 : (c.tile_n + 127) / 128 * 16;
    EXPECT_EQ(stage_bytes(c), c.tile_m * 128 + c.tile_n * 128 + c.tile_m * 4 + b_scales) << name(c);
    EXPECT_LE(b_scales, b_scale_slots(c) * 4) << name(c);
    EXPECT_LT(stage_bytes(c), 1 << 20) << "the transaction count of a barrier has 20 bits";
    EXPECT_LE(c.tile_m, 256) << "a box has at most 256 rows";
    EXPECT_LE(c.tile_n, 256);
  }
}

// Values row by row, scales in groups of four, as the launch encodes their boxes.
TEST(SharedPlan, CountsTheBytesOfRowsThatAreNotThere) {
  for (const Sm90GemmConfig& c : kSm90GemmConfigs) {
    for (int rows = 1; rows <= c.tile_m; ++rows) {
      const int present = stage_bytes(c) - bytes_beyond_m(c.tile_m - rows);
      EXPECT_EQ(present, stage_bytes(c) - c.tile_m * 132 + rows * 128 + (rows + 3) / 4 * 16)
          << name(c) << ", " << rows << " rows";
    }
  }
}

// Two consumers of whole waves make up the tile.
TEST(SharedPlan, CutsATileIntoWholeWaves) {
  for (const Sm90GemmConfig& c : kSm90GemmConfigs) {
    const int waves = waves_m(c) * waves_n(c);
    EXPECT_EQ(consumers(c) * waves * kWaveM * wave_n(c), c.tile_m * c.tile_n) << name(c);
    EXPECT_LE(waves, 2) << name(c) << ": 64 accumulators a wave, of 240 registers";
    EXPECT_EQ(consumer_rows(c) % kWaveM, 0) << name(c);
    EXPECT_EQ(consumer_cols(c) % wave_n(c), 0) << name(c);
  }
}

}  // namespace
}  // namespace octet
