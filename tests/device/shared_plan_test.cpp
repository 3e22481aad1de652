// The shared memory of every compiled configuration: it fits, and its parts are aligned and do not
// overlap.
#include "ops/gemm/sm90/wgmma.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
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
          {"staging", plan.staging, kStagingBytes, staging_bytes(c) / kStagingBytes, 1024},
          {"a_scales", plan.a_scales, a_scale_slots(c, Groups::none) * 4, scale_buffers(c),
           has_slice_scales(c) ? 128 : 16},
          {"b_scales", plan.b_scales, b_scale_slots(c) * 4, scale_buffers(c),
           has_slice_scales(c) ? 128 : 16},
          {"full", plan.full, 8, c.stages, 8},
          {"empty", plan.empty, 8, c.stages, 8},
          {"staged", plan.staged, 8, kConsumers * kMostStagedWaves, 8},
          {"stored", plan.stored, 8, 1, 8},
          {"stored_before", plan.stored_before, 4, kMostCluster, 4}};
}

TEST(SharedPlan, FitsAMultiprocessor) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    EXPECT_LE(shared_bytes(config), 232448) << name(config);
    EXPECT_EQ(shared_plan(config).bytes % 1024, 0) << name(config);
    EXPECT_GE(shared_bytes(config), shared_plan(config).bytes + 1023) << "room to align";
  }
}

TEST(SharedPlan, AlignsEveryStage) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    for (const Part& part : parts(config)) {
      EXPECT_EQ(part.begin % part.alignment, 0) << name(config) << ", " << part.name;
      if (part.count > 1) {
        EXPECT_EQ(part.stage_bytes % part.alignment, 0) << name(config) << ", " << part.name;
      }
    }
  }
}

TEST(SharedPlan, KeepsItsPartsApart) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
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

// The parts of both consumers' results lie apart, in the last stage or the staging memory, and cover the tile.
TEST(SharedPlan, HasRoomForAStagedTile) {
  const auto check = [](const Sm90GemmConfig& c, Groups groups) {
    if (!is_staged(c)) return;
    const Sm90SharedPlan plan = shared_plan(c, groups);
    const int bytes = staged_part_bytes(c);
    const int a = plan.a + (c.stages - 1) * c.tile_m * kSliceBytes;
    const int b = plan.b + (c.stages - 1) * c.tile_n * kSliceBytes;
    std::set<int> places;
    std::set<std::pair<int, int>> corners;
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      for (int i = 0; i < staged_parts(c); ++i) {
        const StagedPart part = staged_part(c, groups, i);
        const int from = part.offset + consumer * part.apart;
        const bool in_a = from >= a && from + bytes <= a + c.tile_m * kSliceBytes;
        const bool in_b = from >= b && from + bytes <= b + c.tile_n * kSliceBytes;
        const bool in_staging = from >= plan.staging && from + bytes <= plan.a_scales;
        EXPECT_TRUE(in_staging || (stages_in_ring(c) && (in_a || in_b)))
            << name(c) << ", part " << i;
        EXPECT_EQ(in_b, i >= first_part_in_b(c)) << name(c) << ", part " << i;
        EXPECT_EQ(from % kSharedAlignment, 0) << name(c) << ", part " << i;
        // Parts of a are rows that no other consumer reads, and of the first wave only its own.
        const int own = consumer_rows(c) * kSliceBytes;
        if (in_a) {
          EXPECT_EQ((from - a) / own, consumer) << name(c) << ", part " << i;
        }
        if (in_a && stages_early(c) && i < 2) {
          EXPECT_LT((from - a) % own, kWaveM * kSliceBytes) << name(c) << ", part " << i;
        }
        for (int at = from; at < from + bytes; at += kSharedAlignment) places.insert(at);
        corners.insert({part.row + consumer * consumer_rows(c), part.col});
      }
    }
    EXPECT_EQ(places.size() * kSharedAlignment, std::size_t(c.tile_m) * c.tile_n * 2) << name(c);
    std::set<std::pair<int, int>> wanted;
    for (int row = 0; row < c.tile_m; row += kWaveM) {
      for (int col = 0; col < c.tile_n; col += box_cols(c, 2)) wanted.insert({row, col});
    }
    EXPECT_EQ(corners, wanted) << name(c);
  };
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) check(config, Groups::none);
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    check(config.gemm, config.groups);
  }
}

// A wave of 160 or 192 columns crosses from one block of b's scales into the next, wherever its tile lies: not
// before its second segment, not behind the start of its last, and at the start of a segment.
TEST(SharedPlan, CrossesScaleBlocksBetweenSegments) {
  int crossing = 0;
  const auto check = [&](const Sm90GemmConfig& c) {
    if (!crosses_scale_blocks(c)) return;
    ++crossing;
    const int segment = scale_segment(c);
    for (int tile = 0; tile < 64; ++tile) {
      const int first = tile * c.tile_n;
      const int cross = kScaleBlock - first % kScaleBlock;
      EXPECT_EQ(cross % segment, 0) << name(c) << ", tile " << tile;
      EXPECT_GE(cross, segment) << name(c) << ", tile " << tile;
      EXPECT_LE(cross, c.tile_n - segment) << name(c) << ", tile " << tile;
      EXPECT_EQ((first + c.tile_n - 1) / kScaleBlock - first / kScaleBlock, 1)
          << name(c) << ", tile " << tile;
    }
  };
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) check(config);
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) check(config.gemm);
  EXPECT_EQ(crossing, 4) << "128x192 and 128x160, of one product and of groups";
}

// A barrier expects exactly the bytes that the copies of a stage load, counted here by hand.
TEST(SharedPlan, CountsTheBytesOfAStage) {
  struct Counted {
    const char* config;
    int operands, a_scales, b_scales;  // bytes
  };
  for (const auto& [config, operands, a_scales, b_scales] :
       {Counted{"256x128x4 1x128.128x128 e4m3.e4m3 cluster", 49152, 1024, 16},
        {"128x256x4 1x128.128x128 e4m3.e4m3", 49152, 512, 32},
        {"128x192x4 1x128.128x128 e4m3.e4m3", 40960, 512, 32},
        {"128x160x5 1x128.128x128 e4m3.e4m3", 36864, 512, 32},
        {"64x32x12 1x128.128x128 e4m3.e4m3", 12288, 256, 16},
        {"256x128x4 1x128.1x128 e4m3.e4m3 paired", 49152, 1024, 512},
        {"64x64x10 1x128.1x128 e4m3.e4m3 paired", 16384, 256, 256},
        {"256x128x4 1xall.1xall e4m3.e4m3", 49152, 0, 0},
        {"128x192x5 unpromoted e4m3.e4m3 cluster in turn", 40960, 0, 0}}) {
    const auto c = parse_sm90_gemm_config(config);
    ASSERT_TRUE(c.has_value()) << config;
    EXPECT_EQ(stage_bytes(*c), operands + a_scales + b_scales) << config;
  }
  for (const Sm90GemmConfig& c : sm90_gemm_configs()) {
    EXPECT_LE(b_scale_floats(c), b_scale_slots(c)) << name(c);
    EXPECT_LT(stage_bytes(c), 1 << 20) << "the transaction count of a barrier has 20 bits";
    EXPECT_LE(c.tile_m, 256) << "a box has at most 256 rows";
    EXPECT_LE(c.tile_n, 256);
  }
}

// Values row by row, scales in groups of four, as the launch encodes their boxes.
TEST(SharedPlan, CountsTheBytesOfRowsThatAreNotThere) {
  for (const Sm90GemmConfig& c : sm90_gemm_configs()) {
    for (int rows = 1; rows <= c.tile_m; ++rows) {
      const bool scales = has_slice_scales(c);
      const int present = stage_bytes(c) - bytes_beyond_m(c.tile_m - rows, scales);
      EXPECT_EQ(present, stage_bytes(c) - c.tile_m * (scales ? 132 : 128) + rows * 128 +
                             (scales ? (rows + 3) / 4 * 16 : 0))
          << name(c) << ", " << rows << " rows";
    }
  }
}

// Scales that are applied at the end: each warp has those of its own rows, and of all columns of its consumer.
TEST(SharedPlan, HasRoomForTheEndScalesOfEveryWarp) {
  int scaled = 0;
  for (const Sm90GemmConfig& c : sm90_gemm_configs()) {
    if (!has_end_scales(c)) continue;
    ++scaled;
    const int warps = 4 * consumers(c);
    EXPECT_EQ(rows_of_warp(c) * 4, consumer_rows(c)) << name(c);
    EXPECT_LE(rows_of_warp(c), 32) << name(c) << ": one lane loads one";
    EXPECT_GE(a_scale_slots(c, Groups::none), warps * rows_of_warp(c)) << name(c);
    EXPECT_GE(b_scale_slots(c), warps * consumer_cols(c)) << name(c);
  }
  EXPECT_GT(scaled, 20);
}

// Two consumers of whole waves make up the tile.
TEST(SharedPlan, CutsATileIntoWholeWaves) {
  for (const Sm90GemmConfig& c : sm90_gemm_configs()) {
    const int waves = waves_m(c) * waves_n(c);
    EXPECT_EQ(readers(c) * waves * kWaveM * wave_n(c), c.tile_m * c.tile_n) << name(c);
    EXPECT_LE(waves, 2) << name(c);
    EXPECT_LE(waves * wave_n(c) / 2, 192) << name(c) << ": accumulators, of 240 registers";
    EXPECT_EQ(consumer_rows(c) % kWaveM, 0) << name(c);
    EXPECT_EQ(consumer_cols(c) % wave_n(c), 0) << name(c);
    EXPECT_TRUE(!c.in_turn || c.promotion == Promotion::none) << name(c);
  }
}

TEST(SharedPlan, LoadsEachRowOfASharedOperandOnce) {
  for (const Sm90GemmConfig& c : sm90_gemm_configs()) {
    EXPECT_EQ(cluster_m(c) * cluster_n(c), c.cluster) << name(c);
    EXPECT_EQ(loaded_rows_of_a(c) * cluster_n(c), c.tile_m) << name(c);
    EXPECT_EQ(loaded_rows_of_b(c) * cluster_m(c), c.tile_n) << name(c);
    EXPECT_EQ(loaded_rows_of_b(c) % 8, 0) << name(c) << ": whole swizzle atoms";
  }
}

TEST(SharedPlan, FlipsTheStagesThatATileUsesAnOddNumberOfTimes) {
  for (int stages = 1; stages <= kMostStages; ++stages) {
    for (int slices = 0; slices <= 40; ++slices) {
      std::uint32_t flipped = 0;
      for (int slice = 0; slice < slices; ++slice) flipped ^= 1u << slice % stages;
      EXPECT_EQ(flipped_stages(stages, slices), flipped) << stages << " stages, " << slices;
    }
  }
}

}  // namespace
}  // namespace octet
