// The producer of the Hopper product: one lane of a warp, which keeps the ring full.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/l2_cache.cuh"
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
        absent_(loads_present_rows(c) ? max(0, m0_ + c.tile_m - params.m) : 0) {
    if constexpr (c.promotion == Promotion::product_of_scales) {
#pragma unroll
      for (int block = 0; block < b_scale_blocks(c); ++block) {
        const int row = min(n0_ / kScaleBlock + block, params.b_scale_rows - 1);
        b_scales_[block] = params.b_scales + row * params.b_scale_pitch;
        asm volatile("" : "+l"(b_scales_[block]));  // not computed again for every stage
      }
    }
  }

  __device__ __forceinline__ void load(int stage, int slice) const {
    const std::uint32_t full = base_ + offsetof(Storage, full) + 8 * stage;
    ptx::barrier_expect_bytes(full, stage_bytes(c) - absent_bytes(absent_));
    const OperandMaps& a_maps = absent_ > 0 ? maps_.a_last : maps_.a;
    const std::uint32_t a = base_ + offsetof(Storage, a) + stage * sizeof(Storage::a[0]);
    if constexpr (c.cluster > 1) {
      const int row = c.tile_m / c.cluster * static_cast<int>(ptx::cluster_rank());
      ptx::load_box_for((1 << c.cluster) - 1, a + row * kSliceBytes, &a_maps.values,
                        slice * kSliceBytes, m0_ + row, full);
    } else {
      ptx::load_box(a, &a_maps.values, slice * kSliceBytes, m0_, full);
    }
    const std::uint32_t b = base_ + offsetof(Storage, b) + stage * sizeof(Storage::b[0]);
    if constexpr (c.columns == Columns::paired) {
      ptx::load_paired_box(b, &maps_.b.values, slice * kSliceBytes, n0_ / kPairedGroup, full);
    } else {
      ptx::load_box(b, &maps_.b.values, slice * kSliceBytes, n0_, full);
    }
    ptx::load_box(base_ + offsetof(Storage, a_scales) + stage * sizeof(Storage::a_scales[0]),
                  &a_maps.scales, m0_, slice, full);
    const std::uint32_t b_scales =
        base_ + offsetof(Storage, b_scales) + stage * sizeof(Storage::b_scales[0]);
    if constexpr (c.promotion == Promotion::one_by_one) {
      ptx::load_box(b_scales, &maps_.b.scales, n0_, slice, full);
    } else {
      // 16 bytes: the scales of four slices, of which the consumer takes one.
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
  int absent_;                                // rows of a
  const float* b_scales_[b_scale_blocks(c)];  // of 128x128 blocks
};

// f32 results are added to d by the copy engine, and what of d is not in the L2 cache by then holds the
// additions up: it is brought there first, in boxes, in step with the loads but most of a ring behind
// them, near where the consumers are. Earlier, short contractions would want more of it than the
// cache holds.
template <class C>
class SumsAhead {
 public:
  __device__ __forceinline__ explicit SumsAhead(const GemmParams& params)
      : wanted_(params.accumulate && params.store == Store::boxes) {}

  // A slice has been loaded.
  __device__ __forceinline__ void advance(const GemmMaps& maps, const GemmParams& params) {
    if (wanted_ && ++behind_ == c.stages) ask(maps, params);
  }

  // The last slice has been loaded.
  __device__ __forceinline__ void finish(const GemmMaps& maps, const GemmParams& params) {
    while (behind_ > 0) ask(maps, params);
  }

 private:
  static constexpr Sm90GemmConfig c = C::value;
  static constexpr int kBoxCols = box_cols(c, 4);
  static constexpr int kAcross = c.tile_n / kBoxCols;
  static constexpr int kBoxes = c.tile_m / kBoxRows * kAcross;
  static constexpr int kAtOnce = (kBoxes + 7) / 8;

  // The share of one slice: the last boxes are due a ring before the tile's last slice.
  __device__ __forceinline__ void ask(const GemmMaps& maps, const GemmParams& params) {
    const int due = kBoxes - kAtOnce * max(0, params.slices - c.stages - slice_);
    if (asked_ < due) {
      const TileIndex tile = tiles_.tile(params);
      for (; asked_ < due; ++asked_) {
        ptx::prefetch_box(&maps.d, tile.n * c.tile_n + asked_ % kAcross * kBoxCols,
                          tile.m * c.tile_m + asked_ / kAcross * kBoxRows);
      }
    }
    --behind_;
    if (++slice_ < params.slices) return;
    slice_ = 0;
    asked_ = 0;
    tiles_.advance();
  }

  bool wanted_;
  Tiles<C> tiles_;
  int slice_ = 0;
  int asked_ = 0;   // boxes of the tile
  int behind_ = 0;  // slices loaded and not asked for yet
};

// The one lane of a warp that loads. Of a lane that is named ptxas does not know that it is alone, and puts
// a loop over lanes, some 75 clocks, around every load: small tiles then wait for the producer, not for
// memory, and elect one. Large ones have the time, and lose up to 8 % where their loads come at once.
template <class C>
__device__ __forceinline__ bool is_loading_lane() {
  if constexpr (loads_at_once(C::value)) return ptx::elect_lane();
  return threadIdx.x == 0;
}

template <class C>
__device__ void load_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  if (!is_loading_lane<C>()) return;
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  std::uint32_t phases = ~0u;  // an empty ring: the first wait for each stage returns at once
  int stage = 0;
  SumsAhead<C> ahead(params);
#pragma unroll 1
  for (Tiles<C> tiles; tiles.left(params); tiles.advance()) {
    const StageLoader<C> loader(base, maps, params, tiles.tile(params));
    if constexpr (stages_unrolled(c)) stage = 0;
#pragma unroll 1
    for (int slice = 0; slice < params.slices; ++slice) {
      ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
      phases ^= 1u << stage;
      loader.load(stage, slice);
      ahead.advance(maps, params);
      stage = stage + 1 == c.stages ? 0 : stage + 1;
    }
  }
  ahead.finish(maps, params);
  // Consumers of a rolled ring await a stage beyond the last one: an empty one ends their wait.
  if constexpr (!stages_unrolled(c)) {
    ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
    ptx::barrier_arrive(base + offsetof(Storage, full) + 8 * stage);
  }
}

}  // namespace octet::sm90
