// Where the Hopper backward keeps dS, and the chunks it runs in.
#include "ops/attention/sm90/backward/plan.hpp"

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
                                  b * tiles, tiles,
                                  0};
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

TEST(AttentionBackwardPlan, NoSequencesHaveAChunkWithoutRows) {
  for (const std::size_t limit : {std::size_t{0}, kNoLimit}) {
    const AttentionProblem problem = problem_of(0, 300, 300, 4, 2);
    const BackwardPlan plan = plan_backward(problem, limit, kMultiprocessors);
    EXPECT_GT(plan.count(problem.heads_kv), 0);
    for (const Chunk& chunk : plan.chunks) EXPECT_EQ(chunk.first_row, chunk.end_row);
  }
}

// Zeros of every sequence are written once, however many chunks its keys would fill.
TEST(AttentionBackwardPlan, SequencesWithoutQueriesAreOneChunkOfAHead) {
  const BackwardPlan plan =
      plan_backward(problem_of(4, 0, 20000, 4, 2), kNoLimit, kMultiprocessors);
  EXPECT_EQ(plan.chunks.size(), 2u);
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

AttentionProblem packed_problem() {
  AttentionProblem problem = problem_of(7, 1000, 700, 8, 4, kCausalMask);
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = 2345;
  problem.total_kv = 2000;
  return problem;
}

// The tables of packed sequences of these lengths, as packed_tables_kernel makes them.
struct HostTables {
  std::vector<SequenceEntry> sequences;
  std::vector<UnitEntry> units;
  std::int32_t key_tiles = 0;

  HostTables(const AttentionMask& mask, const std::vector<std::pair<int, int>>& lengths) {
    std::int32_t row = 0, tile = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto& [queries, keys] = lengths[i];
      SequenceMask sees(mask, queries, keys);
      if (i + 1 == lengths.size())
        sees = SequenceMask({.right = 0, .align = MaskAlignment::top_left}, 0, 0);
      SequenceEntry entry{0, queries, 0, keys, row, rows_of(queries), tile, 0, key_tiles};
      for (std::int32_t unit = 0; unit < entry.rows * kRowUnits; ++unit) {
        const TileRange seen = key_tiles_of_unit(sees, unit);
        units.push_back({tile, seen.begin, seen.end, 0});
        tile += seen.count();
      }
      entry.tiles = tile - entry.first_tile;
      sequences.push_back(entry);
      row += entry.rows;
      key_tiles += key_tiles_of(keys);
    }
  }
};

// Parts of packed sequences have every row and, of every sequence that they have rows of, all keys. Sequences
// without rows are in one part, too, so that their gradients become zeros.
TEST(AttentionBackwardPlan, PartsOfPackedSequencesHaveAllRowsAndTheirKeys) {
  const std::vector<std::vector<std::pair<int, int>>> batches{
      {{1000, 700}, {0, 130}, {300, 300}, {700, 0}, {5, 5}, {0, 0}, {340, 640}, {100, 200}},
      {{0, 10}, {0, 300}, {1000, 700}, {0, 5}},
      {{300, 0}, {4, 0}},
      {{0, 0}},
      {{600, 600}, {600, 600}, {600, 600}, {0, 0}},
  };
  constexpr std::int32_t kGroup = 2;
  for (const AttentionMask& mask : kMasks) {
    for (const auto& lengths : batches) {
      const HostTables made(mask, lengths);
      const auto count = static_cast<std::int32_t>(lengths.size());
      const PackedTables tables{made.sequences.data(), count, made.units.data(), kGroup};
      const std::int64_t tiles = tables.tile_end(count - 1);
      for (const std::int32_t room : {12 * 2, 12 * 3, 1 << 20}) {
        const PartsPlan plan{1, 1, room, 12, 3, 4, 1000};
        const std::int32_t parts = count_parts(plan, tiles, made.key_tiles);
        const std::int64_t of_part = (tiles + parts - 1) / parts;
        std::vector<PartBegin> begins(1);
        for (std::int32_t i = 1; i < parts; ++i) {
          begins.push_back(part_begin(tables, std::min(i * of_part, tiles)));
        }
        begins.push_back({tables.row_end(count - 1), static_cast<std::int32_t>(tiles),
                          made.key_tiles, made.key_tiles});
        std::vector<int> without_rows(lengths.size(), 0);
        for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
          const PartBegin &begin = begins[i], &end = begins[i + 1];
          EXPECT_LE(begin.row, end.row);
          EXPECT_LE(end.tile - begin.tile, std::max<std::int64_t>(room, tiles));
          if (tiles > room) {
            EXPECT_LE(end.tile - begin.tile, room);
          }
          for (std::int32_t s = 0; s < count; ++s) {
            const SequenceEntry& entry = made.sequences[static_cast<std::size_t>(s)];
            const std::int32_t keys_end = entry.first_key + key_tiles_of(entry.keys);
            const bool has_keys = entry.first_key >= begin.key && keys_end <= end.before_key &&
                                  entry.first_key < keys_end;
            const bool has_rows = tables.row_begin(s) < end.row && tables.row_end(s) > begin.row;
            if (has_rows && entry.keys > 0) {
              EXPECT_TRUE(has_keys) << s << " in part " << i;
            }
            if (entry.rows == 0) without_rows[static_cast<std::size_t>(s)] += has_keys;
          }
        }
        for (std::size_t s = 0; s < lengths.size(); ++s) {
          const bool is_one = lengths[s].first == 0 && lengths[s].second > 0;
          EXPECT_EQ(without_rows[s], is_one ? 1 : 0) << s << " of " << lengths.size();
        }
      }
    }
  }
}

TEST(AttentionBackwardPlan, ChunksOfPackedSequencesAreEveryPartOfEveryHead) {
  const AttentionProblem problem = packed_problem();
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{40} << 20, std::size_t{80} << 20, kNoLimit}) {
    const BackwardPlan plan = plan_backward(problem, limit, kMultiprocessors);
    if (limit > 0) {
      EXPECT_LE(plan.pieces.bytes, limit);
    }
    EXPECT_GE(plan.rows_bound, rows_of(problem.total_q) + 7);
    EXPECT_EQ(problem.heads_kv % (plan.parts.heads * plan.parts.turns), 0);
    const std::int32_t parts = plan.parts.bound;
    std::set<std::pair<int, int>> seen;
    std::vector<std::int32_t> turns(static_cast<std::size_t>(plan.sums_heads), 0);
    for (std::int32_t i = 0; i < plan.count(problem.heads_kv); ++i) {
      const PartOfChunk chunk = part_of_chunk(plan.parts, parts, i);
      EXPECT_LT(chunk.first_head + plan.parts.heads, problem.heads_kv + 1);
      for (std::int32_t head = 0; head < plan.parts.heads; ++head) {
        EXPECT_TRUE(seen.emplace(chunk.first_head + head, chunk.part).second);
        const std::int32_t place = chunk.first_head + head - chunk.sums_head;
        ASSERT_LT(place, plan.sums_heads);
        EXPECT_EQ(turns[static_cast<std::size_t>(place)]++, chunk.turn);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(problem.heads_kv * parts));
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

// The kernel hands on the sums of what it fills with zeros, too.
TEST(AttentionBackwardPlan, SumsHaveTheSizeOfTheFilledHeads) {
  AttentionProblem problem = problem_of(1, 8192, 8192, 16, 2);
  const std::size_t limit = std::size_t{300} << 20;
  const BackwardPlan whole = plan_backward(problem, limit, kMultiprocessors);
  ASSERT_GT(whole.sums_buffers, 0);
  problem.dim_qk = 96;
  problem.dim_v = 72;
  EXPECT_EQ(plan_backward(problem, limit, kMultiprocessors).buffer_bytes, whole.buffer_bytes);
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
