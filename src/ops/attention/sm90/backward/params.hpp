// What the host passes to the kernels of the Hopper backward.
#pragma once

#include "ops/attention/sm90/backward/parts.hpp"

#include <octet/dtype.hpp>

#include <cuda.h>

namespace octet::attention {

// Boxes of 64 columns of one head (head_place.cuh).
struct BackwardMaps {
  CUtensorMap q;     // a step's queries
  CUtensorMap k;     // 128 keys
  CUtensorMap v;     // 128 keys
  CUtensorMap dout;  // a step's queries
  CUtensorMap dk;    // 64 keys
  CUtensorMap dv;    // 64 keys
  CUtensorMap dq_k;  // of dq: 64 keys
  CUtensorMap dq;    // 64 queries
};

// The shape of the problem, as all kernels need it.
struct Shape {
  std::int32_t batch;   // sequences
  std::int32_t seq_q;   // dense
  std::int32_t seq_kv;  // dense
  std::int32_t heads_q;
  std::int32_t heads_kv;
  std::int32_t group;  // heads_q / heads_kv
  bool packed;         // sequences have offsets
  std::int32_t tiles;  // dense: dS tiles of one query head of a sequence
  AttentionMask mask;
  float scale;

  // Dense sequences are alike.
  OCTET_HOST_DEVICE constexpr SequenceEntry dense_entry(std::int32_t sequence) const {
    const std::int32_t rows = rows_of(seq_q);
    return {0, seq_q, 0, seq_kv, sequence * rows, rows, sequence * tiles, tiles, 0};
  }

  // Those of entry `sequence`, which has one more of a packed tensor: it sees nothing.
  OCTET_HOST_DEVICE constexpr SequenceMask mask_of(std::int32_t sequence, std::int32_t queries,
                                                   std::int32_t keys) const {
    SequenceMask result(mask, queries, keys);
    if (sequence < batch) return result;
    result.left = kNoWindow;
    result.right = 0;
    result.shift = -(std::int64_t{queries} + keys + 1);
    return result;
  }
};

// In the workspace; written by the first kernel.
struct Tables {
  SequenceEntry* sequences;  // [batch + 1]; packed only
  UnitEntry* units;          // [rows_bound * 2]
  std::int32_t* key_tiles;   // [key_tiles_bound][2]: sequence and tile, or -1; packed only
  float* lse;        // [heads_q][rows_bound * 256], times log2(e); +infinity: no probability
  float* delta;      // [heads_q][rows_bound * 256]
  float* sink_sums;  // [heads_q][rows_bound]
  std::int32_t rows_bound;
  std::int32_t key_tiles_bound;
  // Packed only: the chunks, as the device has cut them.
  PartBegin* parts;            // [parts + 1]
  std::int32_t* segments;      // their number
  std::int32_t* segment_ends;  // blocks
  ChunkWork* chunks;
};

OCTET_HOST_DEVICE inline SequenceEntry entry_of(const Shape& shape, const Tables& tables,
                                                std::int32_t sequence) {
  return shape.packed ? tables.sequences[sequence] : shape.dense_entry(sequence);
}

struct TablesParams {
  Shape shape;
  Tables tables;
  const void* offsets_q;  // [batch + 1], of offsets_dtype
  const void* offsets_kv;
  std::int64_t offsets_q_step;
  std::int64_t offsets_kv_step;
  bool offsets_i64;
  std::int32_t total_q;
  std::int32_t total_kv;
  PartsPlan parts;          // packed
  std::uint32_t* progress;  // to be cleared
  std::int32_t progress_words;
};

// One tensor of heads: elements from a sequence, row or head to the next.
struct HeadsPointer {
  const void* data;
  std::int64_t batch_step;
  std::int64_t row_step;
  std::int64_t head_step;
};

struct PrepareParams {
  Shape shape;
  Tables tables;
  HeadsPointer out;
  HeadsPointer dout;
  const float* lse;   // [batch, heads_q, seq_q] or [heads_q, total_q]
  const float* dlse;  // the same, or null
  std::int64_t lse_batch_step;
  std::int64_t lse_head_step;
  std::int64_t dlse_batch_step;
  std::int64_t dlse_head_step;
  const float* sink;  // [heads_q], or null
  std::int64_t sink_step;
  float* dsink;
  std::int64_t dsink_step;
  std::int32_t rows;  // of all sequences; packed: a bound
  std::int32_t dim_v;
};

// How far the grid is, in the workspace: zeros before the first launch. Every consumer of a block counts.
struct Progress {
  std::uint32_t* started;  // blocks of this launch
  std::uint32_t* keys;     // [chunks] of all launches
  std::uint32_t* dq;       // [chunks]
  std::uint32_t* sums;  // [buffers][places][consumers]: the turn that has left sums there, plus one
};

// Sums of dk and dv that chunks hand on. Dense sequences have a place for every block of the chunks that take
// turns. Those of packed tensors share places, and a chunk may take up sums of one and leave those of another.
struct HandedSums {
  float* sums;
  std::int64_t buffer_floats;
  std::int32_t buffers;  // 0: none are handed on; 1; kPackedSums
  std::int32_t places;   // of a buffer: kv heads x key tiles of the longest sequence
  std::int32_t tiles;    // of these: key tiles
  std::int32_t turns;    // packed: groups of heads that take turns
};

struct BackwardParams {
  Shape shape;
  Tables tables;
  Progress progress;
  HandedSums handed;
  float factor;                 // scale * log2(e)
  std::int32_t sequence_count;  // entries of tables.sequences
  std::int32_t head_tiles;      // dS tiles that a chunk has room for, for each of its kv heads
  std::int32_t slot_tiles;      // for all of them
  unsigned char* ds;            // [kSlots][slot_tiles] tiles
  std::int32_t first_chunk;     // of this launch
  std::int32_t segments;        // dense, as all that follows
  std::int32_t segment_ends[kMostChunks + kLag];  // blocks
  ChunkWork chunks[kMostChunks];

  // Of chunk `index` of the launch.
  OCTET_HOST_DEVICE const ChunkWork& chunk(std::int32_t index) const {
    return shape.packed ? tables.chunks[index] : chunks[index];
  }
};
static_assert(sizeof(BackwardParams) + sizeof(BackwardMaps) <= 4096, "kernels take 4 KB");

}  // namespace octet::attention
