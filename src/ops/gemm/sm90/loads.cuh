// The producer of the Hopper product: one lane that keeps the ring of stages full.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/registers.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"

namespace octet::sm90 {

// Loads the stages of a tile.
template <class C>
class StageLoader {
 public:
  __device__ __forceinline__ StageLoader(std::uint32_t base, const Maps<C>& maps,
                                         const Params<C>& params, TileOf<C> tile)
      : base_(base),
        maps_(maps),
        m0_(first_row<C>(tile)),
        n0_(first_col<C>(tile)),
        beyond_m_(kSkipsBeyondM ? max(0, m0_ + c.tile_m - params.m) : 0) {
    if constexpr (kGroups<C> != Groups::none) slices_ = tile.slices;
    if constexpr (kGroups<C> == Groups::rows) matrix_ = tile.group;
    if constexpr (kGroups<C> == Groups::contraction) {
      matrix_ = tile.block;
      if constexpr (kHasPlainContraction<C>) {
        end_ = params.first_rows[tile.group + 1];
      } else {
        paired_apart_ = params.paired_apart;
      }
    }
    if constexpr (kScalesByPointer) {
      const float* scales = params.b_scales;
      if constexpr (kGroups<C> == Groups::rows) scales += tile.group * params.b_scales_apart;
#pragma unroll
      for (int block = 0; block < b_scale_blocks(c); ++block) {
        const int row = min(n0_ / kScaleBlock + block, params.b_scale_rows - 1);
        b_scales_[block] = scales + row * params.b_scale_pitch;
        ptx::keep(b_scales_[block]);
      }
    }
  }

  __device__ __forceinline__ int slices(const Params<C>& params) const {
    return kGroups<C> == Groups::none ? params.slices : slices_;
  }

  __device__ __forceinline__ void load(int stage, int slice) const {
    const std::uint32_t full = Storage::full_at(base_, stage);
    if constexpr (kHasShift<C>) store_shift(stage, slice);
    constexpr int kMore = kGroups<C> == Groups::rows && has_slice_scales(c) ? kScalesAtOnce * 4 : 0;
    ptx::barrier_expect_bytes(
        full, stage_bytes(c) + kMore - bytes_beyond_m(beyond_m_, has_slice_scales(C::value)));
    const OperandMaps& a_maps = beyond_m_ > 0 ? maps_.a_last : maps_.a;
    load_a(Storage::a_at(base_, stage), a_maps, slice, full);
    load_b(Storage::b_at(base_, stage), slice, full);
    if constexpr (has_slice_scales(c)) load_scales(stage, slice, a_maps, full);
  }

 private:
  static constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  // Behind a group's last row lie those of the next.
  static constexpr bool kSkipsBeyondM = is_load_bound(c) && kGroups<C> == Groups::none;
  static constexpr bool kScalesByPointer =
      c.promotion == Promotion::product_of_scales && kGroups<C> != Groups::contraction;
  static_assert(kGroups<C> != Groups::contraction || c.tile_n == kScaleBlock);
  static constexpr std::uint16_t kWholeCluster = (1 << c.cluster) - 1;

  __device__ __forceinline__ void load_scales(int stage, int slice, const OperandMaps& a_maps,
                                              std::uint32_t full) const {
    // Over the contraction, scales of a slice are those of its token block.
    const int scales = kGroups<C> == Groups::contraction ? matrix_ + slice : slice;
    const std::uint32_t a_scales = Storage::a_scales_at(base_, stage);
    if constexpr (kGroups<C> == Groups::rows) {
      const int first = m0_ & -kScalesAtOnce;
      ptx::load_box(a_scales, &a_maps.scales, first, scales, full);
      ptx::load_box(a_scales + c.tile_m * 4, &maps_.a_last.scales, first + c.tile_m, scales, full);
    } else {
      ptx::load_box(a_scales, &a_maps.scales, m0_, scales, full);
    }
    const std::uint32_t b_scales = Storage::b_scales_at(base_, stage);
    if constexpr (c.promotion == Promotion::one_by_one) {
      ptx::load_box(b_scales, &maps_.b.scales, n0_, scales, full);
    } else if constexpr (!kScalesByPointer) {
      // Those of four token blocks, of which the consumer uses one.
      ptx::load_box(b_scales, &maps_.b.scales, scales & -kScalesAtOnce, n0_ / kScaleBlock, full);
    } else {
      // 16 bytes: the scales of four slices, of which the consumer uses one.
#pragma unroll
      for (int block = 0; block < b_scale_blocks(c); ++block) {
        ptx::load_bytes(b_scales + 16 * block, b_scales_[block] + (slice & ~3), 16, full);
      }
    }
  }

  // Bytes from the first scale of the stage to that of the tile's first row, or of the slice's token block.
  // Visible to consumers with the arrival that follows.
  __device__ __forceinline__ void store_shift(int stage, int slice) const {
    const int first = kGroups<C> == Groups::rows ? m0_ : matrix_ + slice;
    ptx::store_shared(Storage::shift_at(base_, stage),
                      static_cast<std::uint32_t>(first % kScalesAtOnce * 4));
  }

  // Panels of an mn-major operand: 64 of its rows by the 64 of the contraction in a slice. One load has 128 bytes
  // along the contiguous dimension at most. Over the contraction of groups, tokens behind the group are zeros.
  template <int kPanels, bool kForAll = false>
  __device__ __forceinline__ void load_panels(std::uint32_t to, const CUtensorMap& map, int first,
                                              int slice, std::uint32_t full) const {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const std::uint32_t at = to + panel * kPanelBytes;
      const int x = first * 2 + panel * kSliceBytes;
      const int y = slice * slice_elements(c);
      if constexpr (kGroups<C> == Groups::contraction) {
        ptx::load_box(at, &map, x, ragged_row(matrix_ + y, end_), end_, kRaggedExtent, full);
      } else if constexpr (kGroups<C> == Groups::rows) {
        ptx::load_box(at, &map, x, y, matrix_, full);
      } else if constexpr (kForAll) {
        ptx::load_box_for(kWholeCluster, at, &map, x, y, full);
      } else {
        ptx::load_box(at, &map, x, y, full);
      }
    }
  }

  __device__ __forceinline__ void load_a(std::uint32_t a, const OperandMaps& a_maps, int slice,
                                         std::uint32_t full) const {
    constexpr int kRows = loaded_rows_of_a(c);
    constexpr bool kShared = kRows < c.tile_m;
    if constexpr (c.a_major == Major::mn) {
      static_assert(kRows % kWaveM == 0 && kGroups<C> != Groups::rows);
      const int row = kShared ? kRows * static_cast<int>(ptx::cluster_rank()) : 0;
      load_panels<kRows / kWaveM, kShared>(a + row * kSliceBytes, a_maps.values, m0_ + row, slice,
                                           full);
    } else if constexpr (kShared) {
      const int row = kRows * static_cast<int>(ptx::cluster_rank());
      static_assert(kGroups<C> != Groups::contraction, "token blocks gain nothing from a cluster");
      ptx::load_box_for(kWholeCluster, a + row * kSliceBytes, &a_maps.values, slice * kSliceBytes,
                        m0_ + row, full);
    } else if constexpr (kGroups<C> == Groups::contraction) {
      ptx::load_box(a, &a_maps.values, 0, m0_, matrix_ + slice, full);
    } else {
      ptx::load_box(a, &a_maps.values, slice * kSliceBytes, m0_, full);
    }
  }

  __device__ __forceinline__ void load_b(std::uint32_t b, int slice, std::uint32_t full) const {
    constexpr int kRows = loaded_rows_of_b(c);
    constexpr bool kShared = kRows < c.tile_n;
    if constexpr (c.b_major == Major::mn) {
      static_assert(!kShared && c.tile_n % kWaveM == 0);
      load_panels<c.tile_n / kWaveM>(b, maps_.b.values, n0_, slice, full);
    } else if constexpr (kShared) {
      static_assert(c.promotion == Promotion::none && kGroups<C> == Groups::none);
      const int row = kRows * static_cast<int>(ptx::cluster_rank());
      ptx::load_box_for(kWholeCluster, b + row * kSliceBytes, &maps_.b.values, slice * kSliceBytes,
                        n0_ + row, full);
    } else if constexpr (c.columns == Columns::paired) {
      if constexpr (kGroups<C> == Groups::contraction) {
        ptx::load_paired_box(b, &maps_.b.values, 0,
                             (matrix_ + slice) * paired_apart_ + n0_ / kPairedGroup, full);
      } else {
        ptx::load_paired_box(b, &maps_.b.values, slice * kSliceBytes, n0_ / kPairedGroup, full);
      }
    } else if constexpr (kGroups<C> == Groups::contraction) {
      ptx::load_box(b, &maps_.b.values, 0, n0_, matrix_ + slice, full);
    } else if constexpr (kGroups<C> == Groups::rows) {
      ptx::load_box(b, &maps_.b.values, slice * kSliceBytes, n0_, matrix_, full);
    } else {
      ptx::load_box(b, &maps_.b.values, slice * kSliceBytes, n0_, full);
    }
  }

  std::uint32_t base_;
  const Maps<C>& maps_;
  int m0_;
  int n0_;
  int beyond_m_;      // rows of the tile beyond M, where they are skipped
  int slices_;        // over groups: of this tile
  int matrix_;        // over groups: weights of b, first token block, or first token
  int end_;           // over the contraction of 16-bit operands: the token behind the group's last
  int paired_apart_;  // groups of paired rows from one token block to the next
  const float* b_scales_[b_scale_blocks(c)];  // of 128x128 blocks
};

// Prefetches d into the L2 cache where f32 results are added to it: TMA performs the additions in the cache
// and stalls on lines that are not there. Boxes are prefetched in step with the loads but most of a ring
// later, close to where the consumers are: with short contractions, earlier prefetches would exceed the
// cache.
template <class C>
class OutputPrefetch {
 public:
  __device__ __forceinline__ OutputPrefetch(std::uint32_t base, const Params<C>& params)
      : wanted_(kGroups<C> != Groups::rows && params.accumulate && params.store == Store::boxes),
        tiles_(base, params) {}

  // A slice has been loaded.
  __device__ __forceinline__ void advance(const Maps<C>& maps, const Params<C>& params) {
    if (wanted_ && ++pending_ == c.stages) prefetch_due(maps, params);
  }

  // The last slice has been loaded.
  __device__ __forceinline__ void finish(const Maps<C>& maps, const Params<C>& params) {
    while (pending_ > 0) prefetch_due(maps, params);
  }

 private:
  static constexpr Sm90GemmConfig c = C::value;
  static constexpr int kBoxCols = box_cols(c, 4);
  static constexpr int kAcross = c.tile_n / kBoxCols;
  static constexpr int kBoxes = c.tile_m / kBoxRows * kAcross;
  static constexpr int kAtOnce = (kBoxes + 7) / 8;

  // One slice's share: the last boxes are due one ring before the tile's last slice.
  __device__ __forceinline__ void prefetch_due(const Maps<C>& maps, const Params<C>& params) {
    const int due = kBoxes - kAtOnce * max(0, tiles_.slices(params) - c.stages - slice_);
    if (prefetched_ < due) {
      const TileOf<C> tile = tiles_.tile(params);
      for (; prefetched_ < due; ++prefetched_) {
        const int col = first_col<C>(tile) + prefetched_ % kAcross * kBoxCols;
        const int row = first_row<C>(tile) + prefetched_ / kAcross * kBoxRows;
        if constexpr (kGroups<C> == Groups::contraction) {
          ptx::prefetch_box(&maps.d, col, row, tile.group);
        } else {
          ptx::prefetch_box(&maps.d, col, row);
        }
      }
    }
    --pending_;
    if (++slice_ < tiles_.slices(params)) return;
    slice_ = 0;
    prefetched_ = 0;
    tiles_.advance();
  }

  bool wanted_;
  TileReader<C> tiles_;
  int slice_ = 0;
  int prefetched_ = 0;  // boxes of the tile
  int pending_ = 0;     // slices loaded since the last prefetch
};

// The one lane of the warp that loads. With `threadIdx.x == 0` ptxas cannot prove that one lane is active, and
// wraps every TMA load in a loop over lanes (~75 clocks). Small tiles and promoted ones of one wide wave would then
// wait for the producer, so they elect a lane. Large tiles have the time, and lose up to 8 % when their loads are issued
// back to back.
template <class C>
__device__ __forceinline__ bool is_loading_lane() {
  if constexpr (is_load_bound(C::value) || crosses_scale_blocks(C::value)) return ptx::elect_lane();
  return threadIdx.x == 0;
}

// The last stage holds results until they are stored: waits until those of all tiles before this position are,
// in every block that this one loads for.
template <class C>
__device__ __forceinline__ void wait_until_stored(std::uint32_t base, int position) {
#pragma unroll
  for (int block = 0; block < C::value.cluster; ++block) {
    const std::uint32_t stored = SharedStorage<C>::stored_before_at(base, block);
    while (static_cast<int>(ptx::load_shared_changing(stored)) < position) {
    }
  }
}

template <class C>
__device__ void load_tiles(std::uint32_t base, const Maps<C>& maps, const Params<C>& params) {
  if (!is_loading_lane<C>()) return;
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  std::uint32_t phases = ~0u;  // an empty ring: the first wait for each stage returns at once
  int stage = 0;
  OutputPrefetch<C> prefetch(base, params);
#pragma unroll 1
  for (TileFinder<C> tiles(base, params); tiles.valid(params); tiles.advance()) {
    const StageLoader<C> loader(base, maps, params, tiles.tile(params));
    if constexpr (stages_unrolled(c)) stage = 0;
#pragma unroll 1
    for (int slice = 0; slice < loader.slices(params); ++slice) {
      ptx::barrier_wait(Storage::empty_at(base, stage), phases >> stage & 1);
      phases ^= 1u << stage;
      if constexpr (stages_in_ring(c)) {
        if (slice == c.stages - 1) wait_until_stored<C>(base, tiles.position());
      }
      loader.load(stage, slice);
      prefetch.advance(maps, params);
      stage = stage + 1 == c.stages ? 0 : stage + 1;
    }
  }
  prefetch.finish(maps, params);
  // Consumers of a rolled ring wait for one stage more than there are: arrive on it without data.
  if constexpr (!stages_unrolled(c)) {
    ptx::barrier_wait(Storage::empty_at(base, stage), phases >> stage & 1);
    ptx::barrier_arrive(Storage::full_at(base, stage));
  }
}

}  // namespace octet::sm90
