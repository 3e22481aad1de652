// Where the Hopper backward keeps dS, and the chunks it runs in.
#include "ops/attention/sm90/backward_plan.hpp"

#include "device/cuda_runtime.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

namespace octet::attention {
namespace {

constexpr int kMultiprocessors = 132;
constexpr std::size_t kNoLimit = std::size_t{1} << 60;

AttentionProblem problem_of(std::int64_t batch, std::int64_t seq_q, std::int64_t seq_kv,
                            std::int64_t heads_q, std::int64_t heads_kv, AttentionMask mask = {}) {
  AttentionProblem problem;
  problem.batch = batch;
  problem.seq_q = seq_q;
  problem.seq_kv = seq_kv;
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  problem.dim_qk = 128;
  problem.mask = mask;
  problem.device = {DeviceType::cuda, 0};
  return completed(problem);
}

const AttentionMask kMasks[] = {
    {},
    kCausalMask,
    {.right = 0, .align = MaskAlignment::top_left},
    {.left = 100, .right = 0},
    {.left = 37, .right = 300},
    {.left = 500, .align = MaskAlignment::top_left},
};

// The table of one dense sequence, as tables_kernel writes it.
std::vector<UnitEntry> units_of(const SequenceMask& mask, std::int32_t& tiles) {
  std::vector<UnitEntry> units;
  tiles = 0;
  for (std::int32_t unit = 0; unit < rows_of(mask.queries) * kRowUnits; ++unit) {
    const TileRange seen = key_tiles_of_unit(mask, unit);
    units.push_back({tiles, seen.begin, seen.end, 0});
    tiles += seen.count();
  }
  return units;
}

TEST(AttentionBackwardTables, UnitsAndKeyTilesSeeEachOtherAlike) {
  for (const AttentionMask& mask : kMasks) {
    for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>(1000, 1000),
                                        {1, 1000},
                                        {1000, 1},
                                        {129, 640},
                                        {700, 300},
                                        {300, 0},
                                        {0, 300}}) {
      const SequenceMask sequence(mask, queries, keys);
      std::set<std::pair<std::int32_t, std::int32_t>> by_units, by_keys, visible;
      for (std::int32_t unit = 0; unit < rows_of(queries) * kRowUnits; ++unit) {
        const TileRange seen = key_tiles_of_unit(sequence, unit);
        for (std::int32_t tile = seen.begin; tile < seen.end; ++tile) by_units.emplace(unit, tile);
      }
      for (std::int32_t tile = 0; tile < key_tiles_of(keys); ++tile) {
        const TileRange seen = units_of_key_tile(sequence, tile);
        for (std::int32_t unit = seen.begin; unit < seen.end; ++unit) by_keys.emplace(unit, tile);
      }
      for (std::int64_t i = 0; i < queries; ++i) {
        const IndexRange range = sequence.keys_of(i);
        for (std::int64_t j = range.begin; j < range.end; ++j) {
          visible.emplace(static_cast<std::int32_t>(i / kTile),
                          static_cast<std::int32_t>(j / kTile));
        }
      }
      EXPECT_EQ(by_units, by_keys) << queries << "x" << keys;
      EXPECT_EQ(by_units, visible) << queries << "x" << keys;
    }
  }
}

// Walks the chunks as the kernels do: where every tile of dS is stored, and which rows are read.
void check_chunks(const AttentionProblem& problem, const BackwardPlan& plan) {
  const SequenceMask mask(problem.mask, problem.seq_q, problem.seq_kv);
  std::int32_t tiles = 0;
  const std::vector<UnitEntry> units = units_of(mask, tiles);
  const auto group = static_cast<std::int32_t>(problem.heads_q / problem.heads_kv);
  const std::int32_t rows = rows_of(problem.seq_q);
  // kv head, sequence, head of the group, unit, key tile
  std::set<std::tuple<int, int, int, int, int>> stored;
  std::set<std::tuple<int, int, int, int>> read;
  std::set<std::pair<int, int>> finished;
  for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
    const Chunk& chunk = plan.chunks[i];
    std::set<std::int64_t> places;
    for (std::int32_t head = chunk.first_head; head < chunk.first_head + chunk.heads; ++head) {
      for (std::int32_t b = 0; b < problem.batch; ++b) {
        const SequenceEntry entry{0,         static_cast<std::int32_t>(problem.seq_q),
                                  0,         static_cast<std::int32_t>(problem.seq_kv),
                                  b * rows,  rows,
                                  b * tiles, tiles};
        const Share share = share_of(entry, group, chunk);
        if (share.any && share.ends) {
          EXPECT_TRUE(finished.emplace(head, b).second);
        }
        for (std::int32_t of_group = 0; of_group < group; ++of_group) {
          const TileRange in_chunk = rows_in_chunk(entry, group, of_group, chunk);
          if (in_chunk.count() > 0) {
            EXPECT_TRUE(share.any);
          }
          for (std::int32_t row = in_chunk.begin; row < in_chunk.end; ++row) {
            EXPECT_TRUE(read.emplace(head, b, of_group, row).second);
            for (std::int32_t unit = row * kRowUnits; unit < (row + 1) * kRowUnits; ++unit) {
              const UnitEntry& seen = units[static_cast<std::size_t>(unit)];
              for (std::int32_t tile = seen.begin; tile < seen.end; ++tile) {
                EXPECT_TRUE(stored.emplace(head, b, of_group, unit, tile).second);
                const std::int64_t place = std::int64_t{head - chunk.first_head} * plan.head_tiles +
                                           first_tile_of(entry, group, of_group) + seen.first_tile +
                                           tile - seen.begin - plan.first_tiles[i];
                EXPECT_TRUE(places.insert(place).second);
                EXPECT_GE(place, std::int64_t{head - chunk.first_head} * plan.head_tiles);
                EXPECT_LT(place, std::int64_t{head - chunk.first_head + 1} * plan.head_tiles);
              }
            }
          }
        }
      }
    }
  }
  const std::size_t heads = static_cast<std::size_t>(problem.heads_q * problem.batch);
  EXPECT_EQ(stored.size(), heads * static_cast<std::size_t>(tiles));
  EXPECT_EQ(read.size(), heads * static_cast<std::size_t>(rows));
  EXPECT_EQ(finished.size(), static_cast<std::size_t>(problem.heads_kv * problem.batch));
}

TEST(AttentionBackwardPlan, StoresEveryTileOnceAndReadsEveryRowOnce) {
  for (const AttentionMask& mask : kMasks) {
    for (const auto& [seq_q, seq_kv] :
         {std::pair<std::int64_t, std::int64_t>(1000, 1000), {300, 900}, {900, 129}}) {
      const AttentionProblem problem = problem_of(3, seq_q, seq_kv, 12, 4, mask);
      const std::size_t least = plan_backward(problem, 0, kMultiprocessors).pieces.bytes;
      const std::size_t most = plan_backward(problem, kNoLimit, kMultiprocessors).pieces.bytes;
      for (const std::size_t limit :
           {std::size_t{0}, least, (3 * least + most) / 4, (least + most) / 2, most - 1, most}) {
        const BackwardPlan plan = plan_backward(problem, limit, kMultiprocessors);
        if (limit >= least) {
          EXPECT_LE(plan.pieces.bytes, limit);
        }
        check_chunks(problem, plan);
      }
    }
  }
}

TEST(AttentionBackwardPlan, EmptySequencesStillHaveAChunkThatWritesZeros) {
  for (const auto& [seq_q, seq_kv] : {std::pair<std::int64_t, std::int64_t>(0, 300), {300, 0}}) {
    for (const std::size_t limit : {std::size_t{0}, kNoLimit}) {
      const AttentionProblem problem = problem_of(2, seq_q, seq_kv, 4, 2);
      const BackwardPlan plan = plan_backward(problem, limit, kMultiprocessors);
      ASSERT_FALSE(plan.chunks.empty());
      check_chunks(problem, plan);
    }
  }
}

// Where the host does not know the lengths, every unit has room for the keys of the longest sequence.
TEST(AttentionBackwardPlan, PackedSequencesHaveRoomWhateverTheirLengths) {
  AttentionProblem problem = problem_of(5, 1000, 700, 8, 2, kCausalMask);
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = 2345;
  problem.total_kv = 2000;
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{20} << 20, std::size_t{60} << 20, kNoLimit}) {
    const BackwardPlan plan = plan_backward(problem, limit, kMultiprocessors);
    EXPECT_GE(plan.rows_bound, rows_of(problem.total_q) + 5);
    std::int32_t head = 0, row = 0;
    for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
      const Chunk& chunk = plan.chunks[i];
      EXPECT_EQ(chunk.first_head, head);
      EXPECT_EQ(chunk.first_row, row);
      EXPECT_LE((chunk.end_row - chunk.first_row) * kRowUnits * plan.sequence_tiles,
                plan.head_tiles);
      EXPECT_EQ(plan.first_tiles[i], chunk.first_row * kRowUnits * plan.sequence_tiles);
      row = chunk.end_row;
      if (row < 4 * plan.rows_bound) continue;
      head += chunk.heads;
      row = 0;
    }
    EXPECT_EQ(head, 2);
    EXPECT_EQ(row, 0);
  }
}

TEST(AttentionBackwardPlan, ChunksOfAGibibyteKeepTheMultiprocessorsBusy) {
  for (const auto& [batch, seq, heads_q, heads_kv] :
       {std::tuple<int, int, int, int>(4, 8192, 128, 8),
        {2, 8192, 64, 8},
        {1, 8192, 28, 4},
        {1, 4096, 64, 8},
        {4, 4096, 32, 32}}) {
    for (const AttentionMask& mask : {AttentionMask{}, kCausalMask}) {
      const AttentionProblem problem = problem_of(batch, seq, seq, heads_q, heads_kv, mask);
      const BackwardPlan plan = plan_backward(problem, std::size_t{1} << 30, kMultiprocessors);
      EXPECT_LE(plan.pieces.bytes, std::size_t{1} << 30);
      EXPECT_GE(plan.chunks.size(), 4u);
      for (const Chunk& chunk : plan.chunks) {
        EXPECT_GE(chunk.heads * key_tiles_of(seq), 0.95 * kMultiprocessors);
      }
    }
  }
}

// Sums of a kv head of a sequence are taken up where the chunk before left them, by chunks whose turn it is.
TEST(AttentionBackwardPlan, ChunksThatShareAPlaceForSumsTakeTurns) {
  for (const std::int64_t heads_kv : {2, 6, 8}) {
    const AttentionProblem problem = problem_of(2, 4096, 4096, 4 * heads_kv, heads_kv, kCausalMask);
    const BackwardPlan plan = plan_backward(problem, std::size_t{200} << 20, kMultiprocessors);
    ASSERT_GT(plan.sums_heads, 0);
    std::vector<std::int32_t> turns(static_cast<std::size_t>(plan.sums_heads), 0);
    for (const Chunk& chunk : plan.chunks) {
      for (std::int32_t head = chunk.first_head; head < chunk.first_head + chunk.heads; ++head) {
        ASSERT_LT(head - chunk.sums_head, plan.sums_heads);
        EXPECT_EQ(turns[static_cast<std::size_t>(head - chunk.sums_head)]++, chunk.turn);
      }
    }
  }
}

TEST(AttentionBackwardPlan, SaysHowMuchWorkspaceItNeeds) {
  const cuda::Pretend h200(cuda::kH200);
  AttentionProblem problem = problem_of(1, 4096, 4096, 8, 2);
  problem.workspace_limit = 1 << 20;
  try {
    (void)plan_attention_backward(problem, {"cuda_sm90_wgmma"});
    FAIL() << "was planned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs a workspace of at least "), std::string::npos)
        << error.what();
  }
  problem.workspace_limit = std::size_t{1} << 30;
  const AttentionBackwardPlan plan = plan_attention_backward(problem);
  EXPECT_EQ(plan.implementation, "cuda_sm90_wgmma");
  EXPECT_LE(plan.workspace_bytes, problem.workspace_limit);
}

}  // namespace
}  // namespace octet::attention
