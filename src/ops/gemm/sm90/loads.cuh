// The producer of the Hopper product: one lane that keeps the ring of stages full.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/registers.cuh"
#include "ops/gemm/sm90/storage.cuh"

namespace octet::sm90 {

// Loads the stages of a tile.
template <class C>
class StageLoader {
 public:
  __device__ __forceinline__ StageLoader(std::uint32_t base, const GemmMaps& maps,
                                         const GemmParams& params, TileIndex tile)
      : base_(base),
        maps_(maps),
        m0_(tile.m * c.tile_m),
        n0_(tile.n * c.tile_n),
        beyond_m_(is_load_bound(c) ? max(0, m0_ + c.tile_m - params.m) : 0) {
    if constexpr (c.promotion == Promotion::product_of_scales) {
#pragma unroll
      for (int block = 0; block < b_scale_blocks(c); ++block) {
        const int row = min(n0_ / kScaleBlock + block, params.b_scale_rows - 1);
        b_scales_[block] = params.b_scales + row * params.b_scale_pitch;
        ptx::keep(b_scales_[block]);
      }
    }
  }

  __device__ __forceinline__ void load(int stage, int slice) const {
    const std::uint32_t full = Storage::full_at(base_, stage);
    ptx::barrier_expect_bytes(full, stage_bytes(c) - bytes_beyond_m(beyond_m_));
    const OperandMaps& a_maps = beyond_m_ > 0 ? maps_.a_last : maps_.a;
    const std::uint32_t a = Storage::a_at(base_, stage);
    if constexpr (c.cluster > 1) {
      const int row = c.tile_m / c.cluster * static_cast<int>(ptx::cluster_rank());
      ptx::load_box_for((1 << c.cluster) - 1, a + row * kSliceBytes, &a_maps.values,
                        slice * kSliceBytes, m0_ + row, full);
    } else {
      ptx::load_box(a, &a_maps.values, slice * kSliceBytes, m0_, full);
    }
    const std::uint32_t b = Storage::b_at(base_, stage);
    if constexpr (c.columns == Columns::paired) {
      ptx::load_paired_box(b, &maps_.b.values, slice * kSliceBytes, n0_ / kPairedGroup, full);
    } else {
      ptx::load_box(b, &maps_.b.values, slice * kSliceBytes, n0_, full);
    }
    ptx::load_box(Storage::a_scales_at(base_, stage), &a_maps.scales, m0_, slice, full);
    const std::uint32_t b_scales = Storage::b_scales_at(base_, stage);
    if constexpr (c.promotion == Promotion::one_by_one) {
      ptx::load_box(b_scales, &maps_.b.scales, n0_, slice, full);
    } else {
      // 16 bytes: the scales of four slices, of which the consumer uses one.
#pragma unroll
      for (int block = 0; block < b_scale_blocks(c); ++block) {
        ptx::load_bytes(b_scales + 16 * block, b_scales_[block] + (slice & ~3), 16, full);
      }
    }
  }

 private:
  static constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;

  std::uint32_t base_;
  const GemmMaps& maps_;
  int m0_;
  int n0_;
  int beyond_m_;                              // rows of the tile beyond M, where they are skipped
  const float* b_scales_[b_scale_blocks(c)];  // of 128x128 blocks
};

// Prefetches d into the L2 cache where f32 results are added to it: TMA performs the additions in the cache
// and stalls on lines that are not there. Boxes are prefetched in step with the loads but most of a ring
// later, close to where the consumers are: with short contractions, earlier prefetches would exceed the
// cache.
template <class C>
class OutputPrefetch {
 public:
  __device__ __forceinline__ explicit OutputPrefetch(const GemmParams& params)
      : wanted_(params.accumulate && params.store == Store::boxes) {}

  // A slice has been loaded.
  __device__ __forceinline__ void advance(const GemmMaps& maps, const GemmParams& params) {
    if (wanted_ && ++pending_ == c.stages) prefetch_due(maps, params);
  }

  // The last slice has been loaded.
  __device__ __forceinline__ void finish(const GemmMaps& maps, const GemmParams& params) {
    while (pending_ > 0) prefetch_due(maps, params);
  }

 private:
  static constexpr Sm90GemmConfig c = C::value;
  static constexpr int kBoxCols = box_cols(c, 4);
  static constexpr int kAcross = c.tile_n / kBoxCols;
  static constexpr int kBoxes = c.tile_m / kBoxRows * kAcross;
  static constexpr int kAtOnce = (kBoxes + 7) / 8;

  // One slice's share: the last boxes are due one ring before the tile's last slice.
  __device__ __forceinline__ void prefetch_due(const GemmMaps& maps, const GemmParams& params) {
    const int due = kBoxes - kAtOnce * max(0, params.slices - c.stages - slice_);
    if (prefetched_ < due) {
      const TileIndex tile = tiles_.tile(params);
      for (; prefetched_ < due; ++prefetched_) {
        ptx::prefetch_box(&maps.d, tile.n * c.tile_n + prefetched_ % kAcross * kBoxCols,
                          tile.m * c.tile_m + prefetched_ / kAcross * kBoxRows);
      }
    }
    --pending_;
    if (++slice_ < params.slices) return;
    slice_ = 0;
    prefetched_ = 0;
    tiles_.advance();
  }

  bool wanted_;
  Tiles<C> tiles_;
  int slice_ = 0;
  int prefetched_ = 0;  // boxes of the tile
  int pending_ = 0;     // slices loaded since the last prefetch
};

// The one lane of the warp that loads. With `threadIdx.x == 0` ptxas cannot prove that one lane is active, and
// wraps every TMA load in a loop over lanes (~75 clocks). Small tiles would then wait for the producer, so
// they elect a lane. Large tiles have the time, and lose up to 8 % when their loads are issued back to back.
template <class C>
__device__ __forceinline__ bool is_loading_lane() {
  if constexpr (is_load_bound(C::value)) return ptx::elect_lane();
  return threadIdx.x == 0;
}

template <class C>
__device__ void load_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  if (!is_loading_lane<C>()) return;
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  std::uint32_t phases = ~0u;  // an empty ring: the first wait for each stage returns at once
  int stage = 0;
  OutputPrefetch<C> prefetch(params);
#pragma unroll 1
  for (Tiles<C> tiles; tiles.valid(params); tiles.advance()) {
    const StageLoader<C> loader(base, maps, params, tiles.tile(params));
    if constexpr (stages_unrolled(c)) stage = 0;
#pragma unroll 1
    for (int slice = 0; slice < params.slices; ++slice) {
      ptx::barrier_wait(Storage::empty_at(base, stage), phases >> stage & 1);
      phases ^= 1u << stage;
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
