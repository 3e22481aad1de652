// A group table made by one block of 1024 threads, a thread per group.
//
//   scan     the ends of the groups, then their first token blocks and tiles
//   order    a group's place is the number of longer groups
//   write    every word of the table, unused ones as zeros
//
// Bound by latency: three scans of the block, and a search of ten steps in shared memory for every
// tile. group_table and moe_maps write their tables with it.
#pragma once

#include "device/rows/integers.cuh"
#include "device/scheduler/block_scan.cuh"
#include "device/scheduler/group_table.hpp"

namespace octet::sm90 {

static_assert(kMaxGroups == kScanThreads, "a thread per group");

struct GroupTableParams {
  Integers numbers;     // [groups], or [groups + 1] for offsets
  std::int32_t* table;  // [GroupTableLayout::words()]
  std::int32_t groups;
  std::int32_t rows;
  GroupSizes given;
};

struct GroupTableStorage {
  std::uint32_t first_row[kMaxGroups + 1];
  std::uint32_t first_block[kMaxGroups + 1];  // also the first tile of 128 rows
  std::uint32_t first_tile[kMaxGroups + 1];   // of 256 rows
  std::uint64_t keys[kMaxGroups];
  std::uint32_t totals[kScanWarps];
  std::int32_t error_group;  // the first one, or kMaxGroups
  GroupError error;
  std::int64_t error_given;
};

// Fills first_row, and finds the first number that was clamped. `number`: that of the thread's
// group.
__device__ __forceinline__ void scan_ends(const GroupTableParams& params, std::int64_t number,
                                          GroupTableStorage& shared) {
  const auto group = static_cast<int>(threadIdx.x);
  const bool exists = group < params.groups;
  if (group == 0) {
    shared.first_row[0] = shared.first_block[0] = shared.first_tile[0] = 0;
    shared.error_group = kMaxGroups;
    shared.error = GroupError::none;
    shared.error_given = 0;
  }
  const auto rows = static_cast<std::uint32_t>(params.rows);
  const auto join = [&](std::uint32_t left, std::uint32_t right) {
    return join_numbers(params.given, left, right, rows);
  };
  shared.first_row[group + 1] =
      scan_block(exists ? scanned_number(number, params.rows) : 0, join, shared.totals);
  __syncthreads();
  const GroupError error =
      exists ? group_end(params.given, shared.first_row[group], number, params.rows).error
             : GroupError::none;
  if (error != GroupError::none) atomicMin(&shared.error_group, group);
  __syncthreads();
  if (shared.error_group == group) {
    shared.error = error;
    shared.error_given = number;
  }
}

// Fills first_block and first_tile. Returns the token blocks of the thread's group.
__device__ __forceinline__ std::uint32_t scan_blocks(GroupTableStorage& shared) {
  const auto group = static_cast<int>(threadIdx.x);
  const std::uint32_t rows = shared.first_row[group + 1] - shared.first_row[group];
  const std::uint32_t blocks = (rows + 127) / 128;
  shared.first_block[group + 1] = scan_sums(blocks, shared.totals);
  shared.first_tile[group + 1] = scan_sums((rows + 255) / 256, shared.totals);
  __syncthreads();
  return blocks;
}

// Several lanes count for one group, up to 32, where there are fewer groups than threads.
__device__ __forceinline__ void write_order(const GroupTableParams& params,
                                            GroupTableStorage& shared, GroupOrder* order) {
  int lanes = 32;
  while (lanes > 1 && params.groups * lanes > kScanThreads) lanes /= 2;
  const int group = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  int larger = 0;
  if (group < params.groups) {
    const std::uint64_t key = shared.keys[group];
#pragma unroll 4
    for (int other = lane; other < params.groups; other += lanes)
      larger += shared.keys[other] > key;
  }
  for (int step = 1; step < lanes; step *= 2) larger += __shfl_xor_sync(~0u, larger, step);
  if (group >= params.groups || lane != 0) return;
  const std::uint32_t first = shared.first_block[group];
  order[larger] = {group, static_cast<std::int32_t>(first),
                   static_cast<std::int32_t>(shared.first_block[group + 1] - first), 0};
}

// Returns the number of tiles.
__device__ __forceinline__ std::uint32_t write_tiles(const GroupTableParams& params,
                                                     const std::uint32_t* first_row,
                                                     const std::uint32_t* first_tile,
                                                     std::uint32_t tile_rows, GroupTile* tiles) {
  const auto rows = static_cast<std::uint32_t>(params.rows);
  const std::uint32_t tail_row = first_row[params.groups];
  const std::uint32_t tail_tile = first_tile[params.groups];
  const std::uint32_t count = tail_tile + (rows - tail_row + tile_rows - 1) / tile_rows;
  const auto room =
      static_cast<std::uint32_t>(GroupTableLayout{params.groups, params.rows}.max_tiles(tile_rows));
  for (std::uint32_t i = threadIdx.x; i < room; i += kScanThreads) {
    GroupTile tile{};
    if (i < tail_tile) {
      const int group = group_of_tile(first_tile, params.groups, i);
      tile = tile_of_group(group, first_row[group], first_row[group + 1], first_tile[group], i,
                           tile_rows);
    } else if (i < count) {
      tile = tile_of_group(-1, tail_row, rows, tail_tile, i, tile_rows);
    }
    reinterpret_cast<int4*>(tiles)[i] =
        make_int4(tile.group, tile.band_row, tile.end_row, tile.band);
  }
  return count;
}

__device__ __forceinline__ void write_firsts(const GroupTableParams& params,
                                             const GroupTableStorage& shared) {
  const GroupTableLayout layout{params.groups, params.rows};
  std::int32_t* const rows = params.table + layout.first_row();
  std::int32_t* const blocks = params.table + layout.first_block();
  const auto length = static_cast<int>(layout.first_block() - layout.first_row());
  for (int i = static_cast<int>(threadIdx.x); i < length; i += kScanThreads) {
    const bool exists = i <= params.groups;
    rows[i] = exists ? static_cast<std::int32_t>(shared.first_row[i]) : 0;
    blocks[i] = exists ? static_cast<std::int32_t>(shared.first_block[i]) : 0;
  }
}

// The whole table. All 1024 threads of a block call it, with the number given for their group, if
// it exists; `start` is the offset before the first group, or 0.
__device__ __forceinline__ void write_group_table(const GroupTableParams& params,
                                                  std::int64_t number, std::int64_t start,
                                                  GroupTableStorage& shared) {
  const GroupTableLayout layout{params.groups, params.rows};
  scan_ends(params, number, shared);
  const std::uint32_t blocks = scan_blocks(shared);
  const auto group = static_cast<int>(threadIdx.x);
  shared.keys[group] = order_key(blocks, group);
  const int filled = __syncthreads_count(blocks > 0);

  write_firsts(params, shared);
  write_order(params, shared, reinterpret_cast<GroupOrder*>(params.table + layout.order()));
  const std::uint32_t tiles_128 =
      write_tiles(params, shared.first_row, shared.first_block, 128,
                  reinterpret_cast<GroupTile*>(params.table + layout.tiles_128()));
  const std::uint32_t tiles_256 =
      write_tiles(params, shared.first_row, shared.first_tile, 256,
                  reinterpret_cast<GroupTile*>(params.table + layout.tiles_256()));
  if (threadIdx.x != 0) return;
  GroupTableHead head{};
  head.magic = kGroupTableMagic;
  head.groups = params.groups;
  head.rows = params.rows;
  head.grouped_rows = static_cast<std::int32_t>(shared.first_row[params.groups]);
  head.token_blocks = static_cast<std::int32_t>(shared.first_block[params.groups]);
  head.tiles_128 = static_cast<std::int32_t>(tiles_128);
  head.tiles_256 = static_cast<std::int32_t>(tiles_256);
  head.filled_groups = filled;
  head.given = params.given;
  if (start != 0) {
    head.error = GroupError::start;
    head.error_given = start;
  } else if (shared.error != GroupError::none) {
    head.error = shared.error;
    head.error_group = shared.error_group;
    head.error_given = shared.error_given;
  }
  *reinterpret_cast<GroupTableHead*>(params.table) = head;
}

}  // namespace octet::sm90
