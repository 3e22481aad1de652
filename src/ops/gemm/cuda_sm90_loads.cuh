// The producer of the Hopper product: one thread that keeps the ring full.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "ops/gemm/cuda_sm90_storage.cuh"

namespace octet::sm90 {

template <class C>
__device__ __forceinline__ void load_stage(std::uint32_t base, const GemmMaps& maps,
                                           const GemmParams& params, int stage, int slice, int m0,
                                           int n0) {
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  const std::uint32_t full = base + offsetof(Storage, full) + 8 * stage;
  ptx::barrier_expect_bytes(full, stage_bytes(c));
  ptx::load_box(base + offsetof(Storage, a) + stage * sizeof(Storage::a[0]), &maps.a,
                slice * kSliceBytes, m0, full);
  const std::uint32_t b = base + offsetof(Storage, b) + stage * sizeof(Storage::b[0]);
  if constexpr (c.columns == Columns::paired) {
    ptx::load_paired_box(b, &maps.b, slice * kSliceBytes, n0 / kPairedGroup, full);
  } else {
    ptx::load_box(b, &maps.b, slice * kSliceBytes, n0, full);
  }
  ptx::load_box(base + offsetof(Storage, a_scales) + stage * sizeof(Storage::a_scales[0]),
                &maps.a_scales, m0, slice, full);
  const std::uint32_t b_scales =
      base + offsetof(Storage, b_scales) + stage * sizeof(Storage::b_scales[0]);
  if constexpr (c.promotion == Promotion::one_by_one) {
    ptx::load_box(b_scales, &maps.b_scales, n0, slice, full);
  } else {
    // 16 bytes: the scales of four slices, of which the consumer takes one.
#pragma unroll
    for (int block = 0; block < b_scale_blocks(c); ++block) {
      const int row = min(n0 / kScaleBlock + block, params.b_scale_rows - 1);
      ptx::load_bytes(b_scales + 16 * block,
                      params.b_scales + row * params.b_scale_pitch + (slice & ~3), 16, full);
    }
  }
}

template <class C>
__device__ void load_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  std::uint32_t phases = ~0u;  // an empty ring: the first wait for each stage returns at once
  int stage = 0;
#pragma unroll 1
  for (int index = blockIdx.x; index < params.raster.count(); index += gridDim.x) {
    const TileIndex tile = params.raster.tile(index);
    if constexpr (stages_unrolled(c)) stage = 0;
#pragma unroll 1
    for (int slice = 0; slice < params.slices; ++slice) {
      ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
      phases ^= 1u << stage;
      load_stage<C>(base, maps, params, stage, slice, tile.m * c.tile_m, tile.n * c.tile_n);
      stage = stage + 1 == c.stages ? 0 : stage + 1;
    }
  }
  // Consumers of a rolled ring await a stage beyond the last one: an empty one ends their wait.
  if constexpr (!stages_unrolled(c)) {
    ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
    ptx::barrier_arrive(base + offsetof(Storage, full) + 8 * stage);
  }
}

}  // namespace octet::sm90
