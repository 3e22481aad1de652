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
  EXPECT_EQ(olmo7.sides[0].blocks() + olmo7.sides[1].blocks(), 264);
  const BackwardLayout olmo32 = backward_layout_of({true, 2, 128, {40, 8}, 16384}, 132);
  EXPECT_EQ(olmo32.threads, 320);
  EXPECT_EQ(olmo32.sides[0].group_tokens, 1);
  EXPECT_EQ(olmo32.sides[1].group_tokens, 5);
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
      EXPECT_LE(layout.sides[0].blocks() + layout.sides[1].blocks(), 264);
      for (const BackwardHeads& side : layout.sides) {
        EXPECT_LE(side.groups, side.streams * (groups / 264 + 2));
      }
    }
  }
}

}  // namespace
}  // namespace octet::testing
