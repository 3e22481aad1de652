// What a launch of the kernel of all widths over rows gets: what chooses a width, the maps and the parameters.
#pragma once

#include "device/ptx/bulk_copy.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

namespace octet::sm90 {

using RowParams = GroupedGemmParams<RowTiles>;

struct RowWidthsLaunch {
  // First, and together: every block waits for these constants.
  const GroupTableHead* table;
  const GroupTile* entries;  // of the tiles of 128 rows
  std::int32_t last_entry;
  Divisor blocks{1};                     // of the grid
  Store store;                           // of the widest
  std::int32_t tile_clocks[kRowWidths];  // 0: not to be taken, and the width has no maps
  std::int32_t across[kRowWidths];       // columns of tiles
  OperandMaps a;
  OperandMaps a_last;
  RowMaps::Values b[kRowWidths];
  CUtensorMap d[kRowWidths];
  RowParams params[kRowWidths];

  // As in a kernel of one tile, those of all widths that may be taken.
  __device__ __forceinline__ void prefetch_maps() const {
    if (threadIdx.x != 128) return;
    ptx::prefetch_map(&a.values);
    ptx::prefetch_map(&a.scales);
    ptx::prefetch_map(&a_last.scales);
#pragma unroll
    for (int i = 0; i < kRowWidths; ++i) {
      if (tile_clocks[i] == 0) continue;
      ptx::prefetch_map(&b[i].values);
      if (stores_boxes(params[i].store)) ptx::prefetch_map(&d[i]);
    }
  }

  // The width that the sizes in the group table fill best.
  __device__ __forceinline__ int choose() const {
    const int down = groups_tiles(*table, 128);
    std::int32_t counts[kRowWidths];
#pragma unroll
    for (int i = 0; i < kRowWidths; ++i) counts[i] = down * across[i];
    return quickest_list(counts, tile_clocks, blocks);
  }

  // The entry of the block's first tile; some other one where the block has no tile in this width.
  __device__ __forceinline__ GroupTile first_entry(int width) const {
    const int entry = static_cast<int>(blockIdx.x) / max(1, across[width]);
    return entries[min(entry, last_entry)];
  }
};

}  // namespace octet::sm90
