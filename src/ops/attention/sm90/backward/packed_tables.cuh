// The tables of packed sequences, whose lengths only the device knows: their rows and keys, the tiles of dS that every
// unit has, and the chunks they are cut into.
#pragma once

#include "ops/attention/sm90/backward/prepare_kernels.cuh"

namespace octet::attention {

// The lengths of a packed sequence: offsets are not trusted to ascend, nor to stay inside the tensor.
__device__ __forceinline__ int2 packed_rows(const void* offsets, std::int64_t step, bool is_i64,
                                            int sequence, int batch, int longest, int total) {
  const auto at = [&](int index) {
    const std::int64_t value = is_i64 ? static_cast<const std::int64_t*>(offsets)[index * step]
                                      : static_cast<const std::int32_t*>(offsets)[index * step];
    return static_cast<int>(value < 0 ? 0 : value > total ? total : value);
  };
  const int begin = at(sequence);
  if (sequence == batch) return {begin, total - begin};
  const int rows = at(sequence + 1) - begin;
  return {begin, rows < 0 ? 0 : min(rows, longest)};
}

// The last entry that begins at or before `at`, where entries begin in ascending order at `begin(index)`.
template <class Begin>
__device__ __forceinline__ int last_at(int count, int at, const Begin& begin) {
  return first_that(count - 1, [&](int i) { return begin(i + 1) > at; });
}

// Rows, keys and the list of key tiles of every packed sequence, by their offsets.
__device__ __forceinline__ void list_sequences(const TablesParams& params,
                                               std::uint32_t (&totals)[octet::sm90::kScanWarps],
                                               std::uint32_t& carry_rows,
                                               std::uint32_t& carry_tiles) {
  using octet::sm90::kScanThreads;
  const Shape& shape = params.shape;
  const Tables& tables = params.tables;
  const int thread = static_cast<int>(threadIdx.x);
  for (int first = 0; first <= shape.batch; first += kScanThreads) {
    const int b = first + thread;
    int2 q{}, k{};
    if (b <= shape.batch) {
      // What lies behind the last sequence may be longer than any.
      q = packed_rows(params.offsets_q, params.offsets_q_step, params.offsets_i64, b, shape.batch,
                      shape.seq_q, params.total_q);
      k = packed_rows(params.offsets_kv, params.offsets_kv_step, params.offsets_i64, b, shape.batch,
                      shape.seq_kv, params.total_kv);
    }
    int rows = rows_of(q.y), key_tiles = key_tiles_of(k.y);
    const std::uint32_t rows_until =
        octet::sm90::scan_sums(static_cast<std::uint32_t>(rows), totals) + carry_rows;
    const std::uint32_t tiles_until =
        octet::sm90::scan_sums(static_cast<std::uint32_t>(key_tiles), totals) + carry_tiles;
    // Offsets that overlap could exceed the bounds: such sequences are empty.
    const bool fits = static_cast<int>(rows_until) <= tables.rows_bound &&
                      static_cast<int>(tiles_until) <= tables.key_tiles_bound;
    if (b <= shape.batch) {
      const int first_row = min(static_cast<int>(rows_until) - rows, tables.rows_bound);
      const int first_key = min(static_cast<int>(tiles_until) - key_tiles, tables.key_tiles_bound);
      tables.sequences[b] = {
          q.x, fits ? q.y : 0, k.x, fits ? k.y : 0, first_row, fits ? rows : 0, 0, 0, first_key};
    }
    __syncthreads();
    if (thread == kScanThreads - 1) {
      carry_rows = min(rows_until, static_cast<std::uint32_t>(tables.rows_bound));
      carry_tiles = min(tiles_until, static_cast<std::uint32_t>(tables.key_tiles_bound));
    }
    __syncthreads();
  }
  for (int i = thread; i < static_cast<int>(carry_tiles); i += kScanThreads) {
    const int sequence =
        last_at(shape.batch + 1, i, [&](int j) { return tables.sequences[j].first_key; });
    const SequenceEntry& entry = tables.sequences[sequence];
    // They are taken from the last to the first, and with a causal mask the first keys are seen by the most queries.
    const int tile = entry.first_key + key_tiles_of(entry.keys) - 1 - i;
    tables.key_tiles[2 * i] = tile < 0 ? -1 : sequence;
    tables.key_tiles[2 * i + 1] = tile;
  }
  __syncthreads();
}

// The key tiles that every unit of a packed sequence sees, and the tiles of dS before them.
__device__ __forceinline__ void list_units(const TablesParams& params,
                                           std::uint32_t (&totals)[octet::sm90::kScanWarps],
                                           std::uint32_t& carry_tiles) {
  using octet::sm90::kScanThreads;
  const Shape& shape = params.shape;
  const Tables& tables = params.tables;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) carry_tiles = 0;
  __syncthreads();
  for (int first = 0; first < tables.rows_bound * kRowUnits; first += kScanThreads) {
    const int unit = first + thread, row = unit / kRowUnits;
    const int sequence =
        last_at(shape.batch + 1, row, [&](int j) { return tables.sequences[j].first_row; });
    const SequenceEntry entry = tables.sequences[sequence];
    TileRange seen;
    if (row >= entry.first_row && row < entry.first_row + entry.rows) {
      seen = key_tiles_of_unit(shape.mask_of(sequence, entry.queries, entry.keys),
                               unit - entry.first_row * kRowUnits);
    }
    const auto count = static_cast<std::uint32_t>(seen.count());
    const std::uint32_t until = octet::sm90::scan_sums(count, totals) + carry_tiles;
    if (row < tables.rows_bound) {
      tables.units[unit] = {static_cast<std::int32_t>(until - count), seen.begin, seen.end, 0};
    }
    __syncthreads();
    if (thread == kScanThreads - 1) carry_tiles = until;
    __syncthreads();
  }
  const auto tiles_before = [&](int row) {
    return row < tables.rows_bound ? tables.units[row * kRowUnits].first_tile
                                   : static_cast<int>(carry_tiles);
  };
  for (int b = thread; b <= shape.batch; b += kScanThreads) {
    SequenceEntry& entry = tables.sequences[b];
    entry.first_tile = tiles_before(entry.first_row);
    entry.tiles = tiles_before(entry.first_row + entry.rows) - entry.first_tile;
  }
  __syncthreads();
}

// The chunks of packed sequences and their segments (parts.hpp).
__device__ __forceinline__ void list_chunks(const TablesParams& params,
                                            std::uint32_t (&totals)[octet::sm90::kScanWarps],
                                            std::uint32_t& carry_blocks) {
  using octet::sm90::kScanThreads;
  const Shape& shape = params.shape;
  const Tables& tables = params.tables;
  const PartsPlan& plan = params.parts;
  const int thread = static_cast<int>(threadIdx.x);
  const PackedTables packed{tables.sequences, shape.batch + 1, tables.units, shape.group};
  const SequenceEntry last = tables.sequences[shape.batch];
  const std::int64_t tiles = packed.tile_end(shape.batch);
  const int key_tiles = last.first_key + key_tiles_of(last.keys);
  const int parts = count_parts(plan, tiles, key_tiles);
  const std::int64_t of_part = (tiles + parts - 1) / parts;
  for (int i = thread; i <= parts; i += kScanThreads) {
    PartBegin begin{};
    if (i == parts) {
      begin = {packed.row_end(shape.batch), static_cast<std::int32_t>(tiles), key_tiles, key_tiles};
    } else if (i > 0) {
      begin = part_begin(packed, min(i * of_part, tiles));
    }
    tables.parts[i] = begin;
  }
  if (thread == 0) carry_blocks = 0;
  __syncthreads();
  const int chunks = shape.heads_kv / plan.heads * parts;
  const auto work_of = [&](int number) -> ChunkWork {
    const PartOfChunk of = part_of_chunk(plan, parts, number);
    const PartBegin begin = tables.parts[of.part], end = tables.parts[of.part + 1];
    return {{of.first_head, plan.heads, begin.row, end.row, of.sums_head, of.turn},
            begin.tile,
            0,
            0,
            begin.key,
            (end.before_key - begin.key) * plan.heads,
            (end.row - begin.row) * plan.heads};
  };
  for (int first = 0; first < chunks + kLag; first += kScanThreads) {
    const int segment = first + thread;
    std::uint32_t blocks = 0;
    if (segment < chunks) {
      tables.chunks[segment] = work_of(segment);
      blocks += tables.chunks[segment].key_blocks;
    }
    if (segment >= kLag && segment < chunks + kLag) blocks += work_of(segment - kLag).dq_blocks;
    const std::uint32_t until = octet::sm90::scan_sums(blocks, totals) + carry_blocks;
    if (segment < chunks + kLag) tables.segment_ends[segment] = static_cast<std::int32_t>(until);
    __syncthreads();
    if (thread == kScanThreads - 1) carry_blocks = until;
    __syncthreads();
  }
  if (thread == 0) *tables.segments = chunks + kLag;
}

// One block.
__global__ __launch_bounds__(octet::sm90::kScanThreads, 1) void packed_tables_kernel(
    const __grid_constant__ TablesParams params) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  __shared__ std::uint32_t totals[octet::sm90::kScanWarps];
  __shared__ std::uint32_t carry_rows, carry_tiles;
  clear_progress(params);
  if (threadIdx.x == 0) carry_rows = carry_tiles = 0;
  __syncthreads();
  list_sequences(params, totals, carry_rows, carry_tiles);
  list_units(params, totals, carry_tiles);
  list_chunks(params, totals, carry_tiles);
}

}  // namespace octet::attention
