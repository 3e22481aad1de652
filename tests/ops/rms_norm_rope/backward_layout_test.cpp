// How backward of rms_norm_rope on Hopper deals heads to blocks and threads.
#include "ops/rms_norm_rope/backward_layout.hpp"
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace octet::testing {
namespace {

// How often the threads of a side take each unit: [tokens, heads, units].
std::vector<int> count_units(const BackwardLayoutProblem& problem, const BackwardLayout& layout,
                             int side_index) {
  const BackwardHeads& side = layout.sides[side_index];
  const std::int64_t heads = problem.heads[side_index];
  const int units = static_cast<int>(problem.head_dim / 16);
  std::vector<int> counts(static_cast<std::size_t>(problem.tokens * heads * units));
  for (std::int64_t block = 0; block < side.blocks(); ++block) {
    const auto chunk = static_cast<int>(block % side.chunks);
    for (std::int64_t group = block / side.chunks; group < side.groups; group += side.streams) {
      for (int i = 0; i < layout.threads; ++i) {
        const BackwardThread thread = backward_thread(side, units, layout.units_log2, chunk, i);
        const std::int64_t token = group * side.group_tokens + thread.token;
        if (!thread.has_unit || token >= problem.tokens) continue;
        for (int h = 0; h < layout.thread_heads; ++h) {
          const std::int64_t head = thread.head + std::int64_t{h} * side.slots;
          if (head >= heads) continue;
          ++counts[static_cast<std::size_t>((token * heads + head) * units + thread.unit)];
        }
      }
    }
  }
  return counts;
}

void expect_each_unit_once(const BackwardLayoutProblem& problem, int multiprocessors) {
  const BackwardLayout layout = backward_layout_of(problem, multiprocessors);
  EXPECT_EQ(layout.threads % 32, 0);
  for (int side = 0; side < 2; ++side) {
    for (const int count : count_units(problem, layout, side)) {
      ASSERT_EQ(count, 1) << "side " << side << " heads " << problem.heads[side] << " head_dim "
                          << problem.head_dim << " tokens " << problem.tokens << " by_row "
                          << problem.by_row;
    }
  }
}

TEST(RmsNormRopeBackwardLayout, TakesEveryUnitOnce) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    BackwardLayoutProblem problem;
    problem.by_row = random() % 2 == 0;
    problem.element_bytes = random() % 2 == 0 ? 2 : 4;
    problem.head_dim = 16 * static_cast<std::int64_t>(1 + random() % 16);
    problem.heads[0] = 1 + static_cast<std::int64_t>(random() % 40);
    problem.heads[1] = static_cast<std::int64_t>(random() % 9);
    problem.tokens = static_cast<std::int64_t>(random() % 90);
    expect_each_unit_once(problem, 1 + static_cast<int>(random() % 8));
    if (HasFatalFailure()) return;
  }
}

TEST(RmsNormRopeBackwardLayout, FillsTheBlocksOfPublishedModels) {
  // OLMo-2 by rows: one token of 32 heads in 256 threads, one of 40 in 320, five of 8 in 320.
  const BackwardLayout olmo7 = backward_layout_of({true, 2, 128, {32, 32}, 16384}, 132);
  EXPECT_EQ(olmo7.threads, 256);
  EXPECT_EQ(olmo7.sides[0].blocks() + olmo7.sides[1].blocks(), 396);
  EXPECT_EQ(olmo7.sides[0].row_sums, 8);
  const BackwardLayout olmo32 = backward_layout_of({true, 2, 128, {40, 8}, 16384}, 132);
  EXPECT_EQ(olmo32.threads, 320);
  EXPECT_EQ(olmo32.sides[0].group_tokens, 1);
  EXPECT_EQ(olmo32.sides[1].group_tokens, 5);
  EXPECT_EQ(olmo32.sides[0].row_sums, 16);  // of 10 warps
  EXPECT_EQ(olmo32.sides[1].row_sums, 8);   // of two
  // Qwen3 by heads: two heads per thread.
  const BackwardLayout qwen8 = backward_layout_of({false, 2, 128, {32, 8}, 16384}, 132);
  EXPECT_EQ(qwen8.threads, 256);
  EXPECT_EQ(qwen8.sides[0].group_tokens, 2);
  EXPECT_EQ(qwen8.sides[1].group_tokens, 8);
}

// No more blocks are started than are resident at once, and none has much more than its share.
TEST(RmsNormRopeBackwardLayout, DealsGroupsEvenly) {
  for (const std::int64_t k_heads : {0, 2, 4, 8, 32}) {
    for (const bool by_row : {false, true}) {
      const BackwardLayout layout = backward_layout_of({by_row, 2, 128, {32, k_heads}, 16384}, 132);
      const std::int64_t groups = layout.sides[0].groups + layout.sides[1].groups;
      const std::int64_t resident = by_row ? 396 : 264;
      EXPECT_LE(layout.sides[0].blocks() + layout.sides[1].blocks(), resident);
      for (const BackwardHeads& side : layout.sides) {
        EXPECT_LE(side.groups, side.streams * (groups / resident + 2));
      }
    }
  }
}

// By rows, the threads of a token copy each of its vectors of cos and sin once, and a thread finds
// those of its unit at its own place and three steps further.
TEST(RmsNormRopeBackwardLayout, CopiesEveryVectorOfAnglesOnce) {
  for (const std::int64_t head_dim : {16, 48, 64, 80, 96, 128, 192, 256, 512}) {
    for (const std::int64_t heads : {1, 3, 8, 16}) {
      const BackwardLayout layout = backward_layout_of({true, 2, head_dim, {heads, 0}, 100}, 4);
      const BackwardHeads& side = layout.sides[0];
      const BackwardAngles angles = backward_angles(layout.units_log2);
      std::vector<int> copies(static_cast<std::size_t>(angles.token_bytes / 16));
      for (int thread = 0; thread < side.token_threads; ++thread) {
        for (int i = thread; i < angles.vectors; i += side.token_threads) {
          ++copies[static_cast<std::size_t>(i)];
          const BackwardAngleVector vector = backward_angle_vector(layout.units_log2, i);
          const int of_unit = 2 * (vector.is_sin ? 1 : 0) + vector.pair / 4;
          EXPECT_EQ(16 * i, 16 * vector.unit + of_unit * angles.unit_step);
        }
      }
      for (const int count : copies) EXPECT_EQ(count, 1);
    }
  }
}

// A block may have 227 KiB of shared memory, of which a kernel has 1 KiB of static variables.
TEST(RmsNormRopeBackwardLayout, HasRoomInSharedMemory) {
  for (const int element_bytes : {2, 4}) {
    for (const bool by_row : {false, true}) {
      for (std::int64_t head_dim = 16; head_dim <= 512; head_dim += 16) {
        for (std::int64_t heads = 1; heads <= 128; ++heads) {
          for (const std::int64_t k_heads : {std::int64_t{0}, std::int64_t{1}, heads}) {
            const BackwardLayoutProblem problem{
                by_row, element_bytes, head_dim, {heads, k_heads}, 1000};
            const BackwardLayout layout = backward_layout_of(problem, 132);
            if (layout.threads > kBackMostThreads) continue;  // goes one pair at a time
            ASSERT_LE(backward_shared_bytes(problem, layout), 226u << 10)
                << "heads " << heads << " and " << k_heads << " head_dim " << head_dim;
          }
        }
      }
    }
  }
}

// The sums of the warps of all tokens of a group have room in a list.
TEST(RmsNormRopeBackwardLayout, HasRoomForTheSumsOfWarps) {
  for (std::int64_t heads = 1; heads <= 64; ++heads) {
    const BackwardLayout layout = backward_layout_of({true, 2, 128, {heads, 1}, 100}, 4);
    if (layout.threads > kBackMostThreads) continue;  // goes one pair at a time
    for (const BackwardHeads& side : layout.sides) {
      EXPECT_GE(side.row_sums, side.token_threads / 32);
      EXPECT_EQ(side.row_sums % 8, 0);
      EXPECT_LE(side.group_tokens * side.row_sums, kBackMostThreads / 32 * 8);
    }
  }
}

}  // namespace
}  // namespace octet::testing
