// How backward of rms_norm_rope on Hopper deals heads to blocks and threads. Index arithmetic only,
// so that tests without a GPU cover it.
//
// A thread has one unit (16 elements) of one head per token, or of two heads: with the norm over
// heads, 16-bit elements and two heads, cos, sin and the weights serve both. The threads of a token
// are side by side, a block has as many tokens as fill it (a group), and its threads keep their
// heads from group to group. Heads of a token that do not fit a block are cut into chunks.
#pragma once

#include "core/numeric.hpp"

#include <algorithm>
#include <cstdint>

namespace octet {

inline constexpr int kBackThreads = 256;      // of a block, unless a row needs more
inline constexpr int kBackMostThreads = 512;  // for one row
// Threads of a multiprocessor that the registers of the kernels allow: 128 for each thread, or 96 by
// rows of 16-bit elements, where two blocks of 320 (40 heads of 128) have room.
constexpr int backward_resident_threads(bool by_row, int element_bytes) {
  return by_row && element_bytes == 2 ? 640 : 512;
}

// q or k in a launch.
struct BackwardHeads {
  int slots = 0;           // threads that have the same unit of a token: ceil(heads / thread_heads)
  int chunk_slots = 0;     // of a chunk; the last may have fewer
  int chunks = 1;          // of a token
  int token_threads = 32;  // of a chunk, with padding
  int group_tokens = 1;
  std::int64_t groups = 0;   // of tokens
  std::int64_t streams = 0;  // a chunk's blocks; each takes every streams-th group

  constexpr std::int64_t blocks() const { return streams * chunks; }
};

struct BackwardLayout {
  int units_log2 = 0;  // of a head, padded to a power of two
  int thread_heads = 1;
  int threads = kBackThreads;
  BackwardHeads sides[2];  // q, k
};

struct BackwardLayoutProblem {
  bool by_row = false;
  int element_bytes = 2;
  std::int64_t head_dim = 0;
  std::int64_t heads[2] = {0, 0};  // q, k
  std::int64_t tokens = 0;
};

// The unit of a thread, in each token of its group.
struct BackwardThread {
  int token;  // in the group
  int index;  // among the threads of the token
  int unit;
  int head;       // the second is `slots` further
  bool has_unit;  // or the thread is padding
};
OCTET_HOST_DEVICE constexpr BackwardThread backward_thread(const BackwardHeads& side, int units,
                                                           int units_log2, int chunk, int thread) {
  const int token = thread / side.token_threads;
  const int index = thread - token * side.token_threads;
  const int unit = index & ((1 << units_log2) - 1);
  const int slot = index >> units_log2;
  const int head = chunk * side.chunk_slots + slot;
  return {
      token, index, unit, head,
      token < side.group_tokens && unit < units && slot < side.chunk_slots && head < side.slots};
}

namespace backward_layout {

constexpr int log2_up(std::int64_t value) {
  int result = 0;
  while ((std::int64_t{1} << result) < value) ++result;
  return result;
}
constexpr int round_up(std::int64_t value, int to) {
  return static_cast<int>((value + to - 1) / to) * to;
}

// The threads of a token. A warp that is summed over a row has units of that row only.
constexpr BackwardHeads token_of(const BackwardLayoutProblem& problem, const BackwardLayout& layout,
                                 std::int64_t heads) {
  BackwardHeads side;
  side.slots = static_cast<int>((heads + layout.thread_heads - 1) / layout.thread_heads);
  const int block_slots = std::max(1, kBackThreads >> layout.units_log2);
  if (!problem.by_row) side.chunks = std::max(1, (side.slots + block_slots - 1) / block_slots);
  side.chunk_slots = (side.slots + side.chunks - 1) / side.chunks;
  side.token_threads = side.chunk_slots << layout.units_log2;
  if (problem.by_row) side.token_threads = round_up(side.token_threads, 32);
  return side;
}

// Every block of both tensors has the same number of groups, or one less: they end together.
constexpr void deal(BackwardLayout& layout, std::int64_t blocks) {
  std::int64_t all = 0;
  for (const BackwardHeads& side : layout.sides) all += side.groups * side.chunks;
  for (std::int64_t each = std::max<std::int64_t>(1, (all + blocks - 1) / blocks);; ++each) {
    std::int64_t used = 0;
    bool most = true;  // one stream per chunk: fewer blocks are not possible
    for (BackwardHeads& side : layout.sides) {
      side.streams = (side.groups + each - 1) / each;
      used += side.blocks();
      most = most && side.streams <= 1;
    }
    if (used <= blocks || most) return;
  }
}

}  // namespace backward_layout

constexpr BackwardLayout backward_layout_of(const BackwardLayoutProblem& problem,
                                            int multiprocessors) {
  using namespace backward_layout;
  BackwardLayout layout;
  layout.units_log2 = log2_up((problem.head_dim + 15) / 16);
  layout.thread_heads = problem.by_row || problem.element_bytes > 2 ? 1 : 2;
  int widest = 1;
  for (int i = 0; i < 2; ++i) {
    if (problem.heads[i] == 0) continue;
    layout.sides[i] = token_of(problem, layout, problem.heads[i]);
    widest = std::max(widest, layout.sides[i].token_threads);
  }
  layout.threads = round_up(std::max(1, kBackThreads / widest) * widest, 32);
  for (int i = 0; i < 2; ++i) {
    if (problem.heads[i] == 0) continue;
    BackwardHeads& side = layout.sides[i];
    side.group_tokens = std::max(1, layout.threads / side.token_threads);
    side.groups = (problem.tokens + side.group_tokens - 1) / side.group_tokens;
  }
  const int resident = backward_resident_threads(problem.by_row, problem.element_bytes);
  deal(layout, std::int64_t{multiprocessors} * std::max(1, resident / layout.threads));
  return layout;
}

}  // namespace octet
