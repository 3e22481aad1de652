// The plan of the Hopper backward: its workspace, and the chunks it runs in.
#pragma once

#include "ops/attention/problem.hpp"
#include "ops/attention/sm90/backward/parts.hpp"

#include <cstddef>
#include <vector>

namespace octet::attention {

// Bytes from the begin of the workspace.
struct BackwardPieces {
  std::size_t sequences = 0;
  std::size_t units = 0;
  std::size_t key_tiles = 0;
  std::size_t lse = 0;
  std::size_t delta = 0;
  std::size_t sink_sums = 0;
  std::size_t parts = 0;  // and what follows up to chunks: packed only
  std::size_t segments = 0;
  std::size_t segment_ends = 0;
  std::size_t chunks = 0;
  std::size_t sums = 0;  // f32 sums of dk and dv between chunks
  std::size_t progress = 0;
  std::size_t ds = 0;
  std::size_t bytes = 0;  // of all
};

struct BackwardPlan {
  std::int32_t rows_bound = 0;       // rows of 256 queries; packed: at most
  std::int32_t key_tiles_bound = 0;  // of all sequences
  std::int32_t sequence_tiles = 0;   // key tiles of the longest sequence
  std::int32_t ds_tiles = 0;         // dense: of one query head of a sequence
  std::int32_t head_tiles = 0;       // dS tiles that a chunk has room for, for each of its kv heads
  std::int32_t chunk_heads = 0;      // kv heads of a chunk, at most
  std::int32_t sums_heads = 0;       // kv heads whose sums are kept
  std::int32_t sums_buffers = 0;     // 0: chunks hand on none
  std::size_t buffer_bytes = 0;      // of sums
  std::vector<Chunk> chunks;         // dense
  std::vector<std::int32_t> first_tiles;  // of the chunks, among those of a kv head
  PartsPlan parts{};                      // packed
  BackwardPieces pieces;

  std::int32_t slot_tiles() const { return chunk_heads * head_tiles; }
  std::int32_t launches() const {
    return chunks.empty()
               ? 1
               : (static_cast<std::int32_t>(chunks.size()) + kMostChunks - 1) / kMostChunks;
  }
  // Packed: at most.
  std::int32_t count(std::int64_t heads_kv) const {
    return chunks.empty() ? static_cast<std::int32_t>(heads_kv) / parts.heads * parts.bound
                          : static_cast<std::int32_t>(chunks.size());
  }
};

// The chunks for a workspace of at most `limit` bytes on a device of so many multiprocessors. Where even the
// smallest chunks do not fit, those are planned: pieces.bytes exceeds the limit. The bits of the results do not
// depend on the chunks.
BackwardPlan plan_backward(const AttentionProblem& problem, std::size_t limit, int multiprocessors);

}  // namespace octet::attention
