// The kernel of all widths of 128-row tiles over rows, in which every launch takes the width that its sizes fill best, and
// what a launch of it gets: what chooses a width, the maps and the parameters.
#pragma once

#include "ops/gemm/sm90/kernel.cuh"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <utility>

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
  template <bool kHasScales>
  __device__ __forceinline__ void prefetch_maps() const {
    if (threadIdx.x != 128) return;
    ptx::prefetch_map(&a.values);
    if constexpr (kHasScales) {
      ptx::prefetch_map(&a.scales);
      ptx::prefetch_map(&a_last.scales);
    }
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

// Nothing of one width is kept in registers for another: without the marks and the exit, ptxas shares values
// between them and spills.
template <class C, int kIndex>
__device__ __forceinline__ void run_width(const RowWidthsLaunch& launch, int width,
                                          std::uint32_t base, GroupTile entry) {
  if (width != kIndex) return;
  asm volatile("// width %0" ::"n"(kIndex) : "memory");
  if (threadIdx.x == kIndex) GroupTiles<C>::store_first_entry(base, entry);
  __syncwarp();
  const RowMaps maps{launch.a, launch.a_last, launch.b[kIndex], launch.d[kIndex]};
  run_roles<C>(base, maps, launch.params[kIndex]);
  asm volatile("// end of width %0\n\texit;" ::"n"(kIndex) : "memory");
}

template <class Family, int... kIndex>
__device__ __forceinline__ void run_widths(const RowWidthsLaunch& launch, int width,
                                           std::uint32_t base, GroupTile entry,
                                           std::integer_sequence<int, kIndex...>) {
  (run_width<WidthConstant<Family::kWidths[kIndex]>, kIndex>(launch, width, base, entry), ...);
}

// What a block needs of the table is loaded at once: the head, and for each width the entry of its first tile, by a
// lane each. Family::kWidths: at most kRowWidths of them.
template <class Family>
__global__ __launch_bounds__(kThreads, 1) void gemm_widths_kernel(
    const __grid_constant__ RowWidthsLaunch launch) {
  constexpr int kCount = static_cast<int>(Family::kWidths.size());
  constexpr int kStages = std::ranges::max(Family::kWidths, {}, [](const auto& c) {
                            return c.gemm.stages;
                          }).gemm.stages;
  using Widest = WidthConstant<Family::kWidths[0]>;
  std::uint32_t base = shared_base();
  launch.prefetch_maps<has_slice_scales(Widest::value)>();
  init_barriers<Widest>(base, kStages, launch.store);
  ptx::wait_for_earlier_kernels();
  GroupTile entry{};
  if (threadIdx.x < kCount) entry = launch.first_entry(static_cast<int>(threadIdx.x));
  int width = launch.choose();
  ptx::make_opaque(width);
  ptx::make_opaque(base);
  run_widths<Family>(launch, width, base, entry, std::make_integer_sequence<int, kCount>());
}

template <class Family>
Sm90GroupedGemmKernel widths_kernel() {
  int bytes = 0;
  for (const Sm90GroupedGemmConfig& width : Family::kWidths) {
    bytes = std::max(bytes, shared_bytes(width));
  }
  return {reinterpret_cast<const void*>(&gemm_widths_kernel<Family>), bytes};
}

}  // namespace octet::sm90
