// Stores the finished tiles of the Hopper product.
#pragma once

#include "ops/gemm/sm90/bias.cuh"
#include "ops/gemm/sm90/consumer.cuh"
#include "ops/gemm/sm90/store_boxes.cuh"
#include "ops/gemm/sm90/store_elements.cuh"
#include "ops/gemm/sm90/store_rows.cuh"
#include "ops/gemm/sm90/store_staged.cuh"

#include <utility>

namespace octet::sm90 {

template <class Fill, int... kParts>
__device__ __forceinline__ void fill_part(const Fill& fill, int part,
                                          std::integer_sequence<int, kParts...>) {
  ((part == kParts ? fill(std::integral_constant<int, kParts>()) : void()), ...);
}

// Writes the accumulators part by part to shared memory and stores them from there. `fill` is instantiated
// once per part, since registers cannot be indexed; `store` once.
template <int kParts, class Fill, class Store>
__device__ __forceinline__ void store_parts(const Fill& fill, const Store& store) {
#pragma unroll 1
  for (int part = 0; part < kParts; ++part) {
    __syncwarp();
    fill_part(fill, part, std::make_integer_sequence<int, kParts>());
    __syncwarp();
    store(part);
  }
}

struct Corner {
  int row;
  int col;
};

// The first row and column of d in a warp's part of a tile.
template <class C>
__device__ __forceinline__ Corner warp_corner(TileOf<C> tile) {
  constexpr Sm90GemmConfig c = C::value;
  const int warpgroup = consumer_warpgroup();
  const int row = warp_index() * 16 + consumer_row<C>(warpgroup);
  return {first_row<C>(tile) + row, first_col<C>(tile) + consumer_col<C>(warpgroup)};
}

template <class C>
__device__ __forceinline__ void store_tile(Consumer<C>& consumer, const Maps<C>& maps,
                                           const Params<C>& params, TileOf<C> tile) {
  constexpr Columns kColumns = C::value.columns;
  constexpr int kCols = wave_n(C::value);  // of a wave
  constexpr int kBoxCols16 = box_cols(C::value, 2);
  constexpr int kBoxCols32 = box_cols(C::value, 4);
  static_assert(kBoxCols32 == 32, "a lane's f32 elements are those of 32 columns");
  using Consumer = Consumer<C>;
  const int lane = lane_index();
  std::uint32_t staging = consumer.base + offsetof(SharedStorage<C>, staging) +
                          (consumer_warpgroup() * 4 + warp_index()) * kStagingBytes;
  // Over groups and with a storing warp the main loop has no register left to keep it from tile to tile.
  if constexpr (kGroups<C> != Groups::none || is_staged(C::value)) ptx::make_opaque(staging);
  const std::uint32_t zero = opaque(0u);
  const Corner corner = warp_corner<C>(tile);
  const TargetOf<C> target = target_of<C>(tile);
  if constexpr (kGroups<C> != Groups::none) {
    if (tile.zeros != 0) consumer.clear();
  }
  if constexpr (has_end_scales(C::value)) {
#pragma unroll
    for (int wave = 0; wave < Consumer::kWaves; ++wave) apply_end_scales(consumer, wave);
  }
  if constexpr (kGroups<C> == Groups::none) {
    if (params.bias != nullptr) add_bias(consumer, params, corner.col, staging);
  }
  const auto row_of = [&](int wave) { return corner.row + wave / Consumer::kWavesN * kWaveM; };
  const auto col_of = [&](int wave) { return corner.col + wave % Consumer::kWavesN * kCols; };
  if (params.store == Store::boxes) {
    const auto store_boxes = [&](auto box_cols, auto fill) {
      constexpr int kBoxCols = decltype(box_cols)::value;
#pragma unroll
      for (int wave = 0; wave < Consumer::kWaves; ++wave) {
#pragma unroll
        for (int col = 0; col < kCols; col += kBoxCols) {
          ptx::wait_stores_read();
          __syncwarp();
          fill(&consumer.acc[wave][col / 2]);
          store_staged_box<C>(staging, maps, params, target, row_of(wave), col_of(wave) + col);
        }
      }
    };
    // 16-bit boxes of staged tiles have left by the storing warp.
    if (is_staged(C::value) || params.d_dtype == Dtype::f32) {
      store_boxes(std::integral_constant<int, kBoxCols32>(),
                  [&](const float* acc) { fill_box32<kColumns>(acc, staging, lane, zero); });
    } else if constexpr (!is_staged(C::value)) {
      store_boxes(std::integral_constant<int, kBoxCols16>(), [&](const float* acc) {
        fill_box16<kColumns, kBoxCols16>(acc, staging, lane, params.d_dtype);
      });
    }
    return;
  }
  if constexpr (stores_rows(C::value)) {
    if (params.store == Store::rows) {
      const Rows16<C> rows{staging, lane};
      store_parts<2 * Consumer::kWaves>(
          [&](auto part) {
            fill_rows16<kColumns, kCols>(&consumer.acc[part / 2][part % 2 * 2], staging, lane,
                                         params.d_dtype);
          },
          [&](int part) {
            rows.store(params, target, row_of(part / 2) + part % 2 * kAtomRows, col_of(part / 2));
          });
      return;
    }
  }
  constexpr int kBoxes = kCols / kBoxCols32;
  store_parts<kBoxes * Consumer::kWaves>(
      [&](auto part) {
        fill_box32<kColumns>(&consumer.acc[part / kBoxes][part % kBoxes * kBoxCols32 / 2], staging,
                             lane, zero);
      },
      [&](int part) {
        store_elements<C>(staging, lane, params, target, row_of(part / kBoxes),
                          col_of(part / kBoxes) + part % kBoxes * kBoxCols32);
      });
}

// Stores a finished tile, or leaves it to the storing warp.
template <class C>
__device__ __forceinline__ void finish_tile(Consumer<C>& consumer, const Maps<C>& maps,
                                            const Params<C>& params, const TileReader<C>& tiles) {
  if constexpr (is_staged(C::value)) {
    if (params.store == Store::staged) {
      stage_tile(consumer, params, tiles);
      return;
    }
  }
  store_tile(consumer, maps, params, tiles.tile(params));
}

}  // namespace octet::sm90
