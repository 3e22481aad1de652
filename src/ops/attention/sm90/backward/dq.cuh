// A dq block of the backward pass: dq = scale * dS K for a row of 256 queries of one query head, over the stored
// tiles of dS.
//
// One block per row: one warpgroup loads, two multiply 128 queries each. A stage has 64 keys: the boxes of dS as
// they were stored (64 keys of 128 queries are 16 contiguous KB), and K, whose rows are the contraction. Keys are
// summed in their order. Memory bounds it: 2 * dim operations for the two bytes of a pair of dS.
#pragma once

#include "device/constant.hpp"
#include "ops/attention/sm90/backward/keys.cuh"

namespace octet::attention {

// The row of a block, in shared memory.
struct RowWork {
  bool any;  // else the block has none
  int head;  // of q
  int kv_head;
  int sequence;
  int row;  // of the sequence
  SequenceEntry entry;
  UnitEntry units[kRowUnits];
  std::uint32_t tiles[kRowUnits];  // the tile of dS that key tile 0 would have

  // Keys seen by either unit: [begin, end) tiles.
  __device__ __forceinline__ TileRange key_tiles() const {
    const UnitEntry &a = units[0], &b = units[1];
    if (a.begin == a.end) return {b.begin, b.end};
    if (b.begin == b.end) return {a.begin, a.end};
    return {min(a.begin, b.begin), max(a.end, b.end)};
  }

  __device__ __forceinline__ void find(const BackwardParams& params, const BlockTask& task) {
    const Shape& shape = params.shape;
    const ChunkWork of_chunk = params.chunk(task.chunk);
    const Chunk& chunk = of_chunk.chunk;
    any = false;
    kv_head = chunk.first_head + task.index % chunk.heads;
    const int index = task.index / chunk.heads;
    const int group_row =
        shape.packed ? chunk.first_row + index : group_row_of(shape, chunk, index);
    if (group_row < 0 || group_row >= chunk.end_row) return;
    sequence = shape.packed ? sequence_of(params, group_row)
                            : group_row / (shape.group * rows_of(shape.seq_q));
    entry = entry_of(shape, params.tables, sequence);
    const int in_sequence = group_row - shape.group * entry.first_row;
    if (in_sequence >= shape.group * entry.rows) return;
    const int head_of_group = in_sequence / entry.rows;
    row = in_sequence - head_of_group * entry.rows;
    head = kv_head * shape.group + head_of_group;
    const int head_in_chunk = kv_head - chunk.first_head;
    const std::uint32_t first_tile = static_cast<std::uint32_t>(head_in_chunk) * params.head_tiles +
                                     first_tile_of(entry, shape.group, head_of_group) -
                                     entry.first_tile +
                                     room_of(params, params.first_chunk + task.chunk, of_chunk);
    for (int unit = 0; unit < kRowUnits; ++unit) {
      units[unit] = params.tables.units[(entry.first_row + row) * kRowUnits + unit];
      tiles[unit] = first_tile + units[unit].first_tile - units[unit].begin;
    }
    any = true;
  }

 private:
  // Dense: the last rows of all heads come first, since with a causal mask they see the most keys. The chunk has
  // `segments` heads, of which the first and the last may have a part of their rows only.
  __device__ __forceinline__ static int group_row_of(const Shape& shape, const Chunk& chunk,
                                                     int index) {
    const int rows = rows_of(shape.seq_q);
    const int first = chunk.first_row / rows;
    const int segments = (chunk.end_row - 1) / rows + 1 - first;
    const int row = (first + index % segments) * rows + rows - 1 - index / segments;
    return row < chunk.first_row ? -1 : row;
  }
  // The last sequence that begins at or before a row.
  __device__ __forceinline__ static int sequence_of(const BackwardParams& params, int group_row) {
    int begin = 0, end = params.sequence_count;
    while (end - begin > 1) {
      const int middle = (begin + end) / 2;
      const bool before =
          params.tables.sequences[middle].first_row * params.shape.group <= group_row;
      (before ? begin : end) = middle;
    }
    return begin;
  }
};

template <class C>
struct alignas(1024) DqStorage {
  static constexpr DqConfig c = C::value;
  static constexpr int kPanels = c.dim_qk / 64;
  std::uint8_t ds[c.stages][kRowUnits][2 * kBoxBytes];  // [unit][half of its queries]
  std::uint8_t k[c.stages][kPanels][kDqKeys * 128];
  RowWork work;
  std::uint64_t full[c.stages], empty[c.stages];
};
// Results leave from the boxes of dS that their own consumer has read: 64 queries x 64 columns each.
static_assert(kConsumers == kRowUnits);

template <class C>
__device__ __forceinline__ void load_row(std::uint32_t base, const BackwardMaps& maps,
                                         const BackwardParams& params, const RowWork& work) {
  constexpr DqConfig c = C::value;
  using Storage = DqStorage<C>;
  const HeadPlace at(params.shape.packed, work.sequence, work.entry.k_begin, work.entry.keys,
                     work.kv_head);
  const TileRange tiles = work.key_tiles();
  int stage = 0;
  std::uint32_t parity = 1;
#pragma unroll 1
  for (int part = tiles.begin * 2; part < tiles.end * 2; ++part) {  // of 64 keys
    const std::uint32_t full = base + offsetof(Storage, full) + 8 * stage;
    ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, parity);
    bool seen[kRowUnits];
    int count = 0;
#pragma unroll
    for (int unit = 0; unit < kRowUnits; ++unit) {
      seen[unit] = part / 2 >= work.units[unit].begin && part / 2 < work.units[unit].end;
      count += seen[unit];
    }
    ptx::barrier_expect_bytes(full, sizeof(Storage::k[0]) + count * sizeof(Storage::ds[0][0]));
#pragma unroll
    for (int unit = 0; unit < kRowUnits; ++unit) {
      if (!seen[unit]) continue;
      const std::uint32_t tile = work.tiles[unit] + part / 2;
      ptx::load_bytes(
          base + offsetof(Storage, ds) + stage * sizeof(Storage::ds[0]) +
              unit * sizeof(Storage::ds[0][0]),
          params.ds + static_cast<std::int64_t>(tile) * kTileBytes + box_offset(part % 2, 0),
          sizeof(Storage::ds[0][0]), full);
    }
#pragma unroll
    for (int panel = 0; panel < Storage::kPanels; ++panel) {
      at.load(base + offsetof(Storage, k) + stage * sizeof(Storage::k[0]) +
                  panel * sizeof(Storage::k[0][0]),
              maps.dq_k, panel * 64, part * kDqKeys, full);
    }
    stage = stage + 1 == c.stages ? 0 : stage + 1;
    parity ^= stage == 0;
  }
}

// A box of dS as operand a: no swizzle, from eight queries to the next in the high word, from eight keys to the next
// in the low one.
inline constexpr std::uint32_t kDsDescriptorHigh = matrix_offset(0, 1) >> 4;
__device__ __forceinline__ std::uint32_t ds_descriptor_low(std::uint32_t address) {
  return ((address & 0x3FFFF) >> 4) | static_cast<std::uint32_t>(matrix_offset(1, 0) >> 4) << 16;
}

template <class C>
__device__ __forceinline__ void multiply_row(std::uint32_t base_, const BackwardMaps& maps,
                                             const BackwardParams& params, const RowWork& work,
                                             int chunk) {
  constexpr DqConfig c = C::value;
  using Storage = DqStorage<C>;
  constexpr int kWaves = kTile / kWaveRows;
  const std::uint32_t base = opaque(base_);
  const int unit = opaque(consumer_index());
  const TileRange tiles = work.key_tiles();
  const int begin = opaque(work.units[unit].begin * 2), end = opaque(work.units[unit].end * 2);
  float acc[kWaves][c.dim_qk / 2];  // (wave, n/8*4), f32
#pragma unroll
  for (auto& wave : acc) {
#pragma unroll
    for (float& value : wave) value = 0;
  }

  // Products
  int stage = 0;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int part = tiles.begin * 2; part < tiles.end * 2; ++part) {
    ptx::barrier_wait(base + offsetof(Storage, full) + 8 * stage, parity);
    if (part >= begin && part < end) {
      const std::uint32_t a =
          ds_descriptor_low(base + offsetof(Storage, ds) + stage * sizeof(Storage::ds[0]) +
                            unit * sizeof(Storage::ds[0][0]));
      const std::uint32_t b =
          descriptor_low_mn(base + offsetof(Storage, k) + stage * sizeof(Storage::k[0]), kDqKeys);
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kDqKeys / 16; ++i) {
#pragma unroll
        for (int wave = 0; wave < kWaves; ++wave) {
          ptx::wgmma16<c.dtype, ptx::Major::mn, ptx::Major::mn>(
              acc[wave],
              ptx::join64(a + ((wave * kBoxBytes + matrix_offset(2 * i, 0)) >> 4),
                          kDsDescriptorHigh),
              ptx::join64(b + i * (kStepMnBytes >> 4), kDescriptorHigh), 1);
        }
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
#pragma unroll
      for (auto& wave : acc) ptx::pin(wave);
    }
    if (ptx::elect_lane()) ptx::barrier_arrive(base + offsetof(Storage, empty) + 8 * stage);
    stage = stage + 1 == c.stages ? 0 : stage + 1;
    parity ^= stage == 0;
  }

  // Results. A warp writes rows where the products of the other three read dS, so all have to be done.
  consumer_sync(unit);
  if (threadIdx.x % 128 == 0) ptx::add_to_count(params.progress.dq + chunk, 1);
  const auto box_at = [&](int box) {  // of this unit
    return base + offsetof(Storage, ds) + box / 2 * sizeof(Storage::ds[0]) +
           unit * sizeof(Storage::ds[0][0]) + box % 2 * kBoxBytes;
  };
  static_assert(kWaves * Storage::kPanels <= 2 * c.stages);
#pragma unroll
  for (int wave = 0; wave < kWaves; ++wave) {
#pragma unroll
    for (int panel = 0; panel < Storage::kPanels; ++panel) {
      store_panel<c.dtype>(acc[wave], panel, params.shape.scale,
                           box_at(wave * Storage::kPanels + panel));
    }
  }
  ptx::fence_shared_writes();
  consumer_sync(unit);
  if (threadIdx.x % 128 < 32 && ptx::elect_lane()) {
    const HeadPlace at(params.shape.packed, work.sequence, work.entry.q_begin, work.entry.queries,
                       work.head);
#pragma unroll
    for (int box = 0; box < kWaves * Storage::kPanels; ++box) {
      const int query = work.row * kRow + unit * kTile + box / Storage::kPanels * kWaveRows;
      if (query >= work.entry.queries) continue;
      at.store(maps.dq, box_at(box), box % Storage::kPanels * 64, query);
    }
    ptx::commit_stores();
  }
  ptx::wait_stores_done();
}

template <class C>
__device__ __forceinline__ void run_dq(std::uint32_t base, RowWork& work, const BackwardMaps& maps,
                                       const BackwardParams& params, const BlockTask& task) {
  using Storage = DqStorage<C>;
  static_assert(sizeof(Storage) + 1024 <= kSharedLimit, "the stages do not fit");
  const int chunk = params.first_chunk + task.chunk;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < C::value.stages; ++stage) {
      ptx::barrier_init(base + offsetof(Storage, full) + 8 * stage, 1);
      ptx::barrier_init(base + offsetof(Storage, empty) + 8 * stage, 4 * kConsumers);
    }
    ptx::fence_barrier_init();
    work.find(params, task);
    if (work.any) {
      wait_for_keys(params, task.chunk);
    } else {
      ptx::add_to_count(params.progress.dq + chunk, kConsumers);
    }
  }
  __syncthreads();
  if (!work.any) return;

  // Roles
  if (threadIdx.x < 128) {
    ptx::shrink_registers<24>();
    if (threadIdx.x < 32 && ptx::elect_lane()) {
      ptx::fence_global_for_copies();
      load_row<C>(base, maps, params, work);
    }
  } else {
    ptx::grow_registers<240>();
    multiply_row<C>(base, maps, params, work, chunk);
  }
}

}  // namespace octet::attention
