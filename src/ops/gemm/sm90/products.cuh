// The main loops of the consumers: which stage is multiplied when, and when the next one is waited for.
#pragma once

#include "ops/gemm/sm90/end_scales.cuh"
#include "ops/gemm/sm90/store_staged.cuh"

#include <utility>

namespace octet::sm90 {

// The waves of one stage. `prefetch` waits for the next stage and loads its scales under the last wave.
template <class C, class Stage, class Prefetch>
__device__ __forceinline__ void multiply_stage(Consumer<C>& consumer, Stage stage,
                                               Prefetch prefetch) {
  using Consumer = Consumer<C>;
  float slice[Consumer::kValues];
#pragma unroll
  for (int wave = 0; wave < Consumer::kWaves; ++wave) {
    const bool last = wave == Consumer::kWaves - 1;
    consumer.issue(slice, stage, wave / Consumer::kWavesN, wave % Consumer::kWavesN);
    if (last) prefetch();
    ptx::wgmma_wait();
    ptx::pin(slice);
    if (last) consumer.release(stage);
    consumer.promote(slice, wave);
  }
}

// One stage. `next_stage` < 0: this is the last stage of the last tile. The next stage is waited for under
// the last wave, unless it is this very stage, which must be released first: that happens where a tile ends
// in the stage in which the next one begins. `meanwhile` runs under the last wave, too.
template <class C, class Stage, class Meanwhile>
__device__ __forceinline__ void step_unrolled(Consumer<C>& consumer, Stage stage, int next_stage,
                                              int next_slice, const Meanwhile& meanwhile) {
  const bool same_stage = next_stage == stage;
  multiply_stage(consumer, stage, [&] {
    if (next_stage >= 0 && !same_stage) consumer.await_unrolled(next_stage, next_slice);
    meanwhile();
  });
  if (same_stage) consumer.await_unrolled(next_stage, next_slice);
  consumer.take_next_scales();
}

// The products of an even and of an odd stage.
template <class C>
using ProductsOfTwo = float[2][Consumer<C>::kValues];

// The same where the products of `stage` are already in flight: issues those of the next stage, if it belongs
// to the same tile, before promoting those of `stage`.
template <class C, class Stage>
__device__ __forceinline__ void step_ahead(Consumer<C>& consumer, ProductsOfTwo<C>& products,
                                           Stage stage, int next_stage, int next_slice,
                                           bool same_tile) {
  const bool same_stage = next_stage == stage;
  if (next_stage >= 0 && !same_stage) consumer.await_unrolled(next_stage, next_slice);
  if (same_tile) {
    consumer.issue(products[next_stage % 2], next_stage, 0, 0);
    ptx::wgmma_wait<1>();
  } else {
    ptx::wgmma_wait();
  }
  ptx::pin(products[stage % 2]);
  consumer.release(stage);
  consumer.promote(products[stage % 2], 0);
  if (same_stage) consumer.await_unrolled(next_stage, next_slice);
  consumer.take_next_scales();
}

// The contraction of a tile with unrolled stages. `more_tiles`: another tile follows. `at_begin` runs under the
// first products of the tile, `at_end` under its last wave.
template <class C, class AtBegin, class AtEnd, int... kStages>
__device__ __forceinline__ void multiply_unrolled(Consumer<C>& consumer, int slices,
                                                  bool more_tiles, const AtBegin& at_begin,
                                                  const AtEnd& at_end,
                                                  std::integer_sequence<int, kStages...>) {
  ProductsOfTwo<C> products;
  if constexpr (is_load_bound(C::value)) {
    consumer.issue(products[0], 0, 0, 0);
    at_begin();
  }
  int slice = 0;
  const auto multiply = [&](auto stage, int next_stage, int next_slice, bool same_tile) {
    if constexpr (is_load_bound(C::value)) {
      step_ahead(consumer, products, stage, next_stage, next_slice, same_tile);
    } else {
      step_unrolled(consumer, stage, next_stage, next_slice, [&] {
        if constexpr (has_end_scales(C::value) && decltype(stage)::value == 0) {
          if (slice == 1) at_begin();
        }
        if (!same_tile) at_end();
      });
    }
  };
  const auto step = [&](auto stage) {
    constexpr int following =
        decltype(stage)::value + 1 == C::value.stages ? 0 : decltype(stage)::value + 1;
    ++slice;
    if (slice < slices) {
      multiply(stage, following, slice, true);
      return true;
    }
    multiply(stage, more_tiles ? 0 : -1, 0, false);
    return false;
  };
  while ((step(std::integral_constant<int, kStages>()) && ...)) {
  }
}

// Consumers in turn: consumer c waits at barrier kTurn + c, until the other has waited for the last stage of its tile.
// Every stage is then at most one phase behind what c waits for, which is as far as a parity tells.
inline constexpr int kTurn = 1;
__device__ __forceinline__ void await_turn() {
  ptx::numbered_barrier_sync(kTurn + consumer_warpgroup(), 256);
}
__device__ __forceinline__ void pass_turn() {
  ptx::numbered_barrier_arrive(kTurn + 1 - consumer_warpgroup(), 256);
}

// The contraction of a tile without promotion. The products of a stage are issued while those of the stage before
// are still in flight; these are then waited for, and their stage is released. `at_last` runs when the last stage's
// are issued, `at_end` under the last wave.
template <class C, class AtBegin, class AtLast, class AtEnd, int... kStages>
__device__ __forceinline__ void multiply_unpromoted(Consumer<C>& consumer, int slices,
                                                    const AtBegin& at_begin, const AtLast& at_last,
                                                    const AtEnd& at_end,
                                                    std::integer_sequence<int, kStages...>) {
  using Consumer = Consumer<C>;
#pragma unroll
  for (int wave = 0; wave < Consumer::kWaves; ++wave) ptx::pin(consumer.acc[wave]);
  int slice = 0;
  int last = 0;
  const auto step = [&](auto stage) {
    constexpr int kStage = decltype(stage)::value;
    if (kStage > 0 || slice > 0) consumer.await_unrolled(kStage);  // else it has been waited for
    consumer.issue_stage(kStage, slice);
    if constexpr (kStage == 0) {
      if (slice == 0) at_begin();
    }
    ptx::wgmma_wait<Consumer::kBatches>();
    if (slice > 0) consumer.release(kStage == 0 ? C::value.stages - 1 : kStage - 1);
    last = kStage;
    return ++slice < slices;
  };
  while ((step(std::integral_constant<int, kStages>()) && ...)) {
  }
  at_last();
  if constexpr (Consumer::kBatches == 2) {
    ptx::wgmma_wait<1>();
    ptx::pin(consumer.acc[0]);
    at_end();
  }
  ptx::wgmma_wait();
#pragma unroll
  for (int wave = Consumer::kBatches - 1; wave < Consumer::kWaves; ++wave)
    ptx::pin(consumer.acc[wave]);
  consumer.release(last);
}

// The contraction of a tile with the stage as a run-time value, which continues from tile to tile. The stage
// after the last one is waited for like any other; the producer arrives on it without data. A wave's scales
// are replaced as soon as they have been used, those of the last wave and of b after its promotion.
template <class C>
__device__ __forceinline__ void multiply_rolled(Consumer<C>& consumer, int slices) {
#pragma unroll 1
  for (int left = slices; left > 0; --left) {
    const int following = consumer.ring_stage + 1 == C::value.stages ? 0 : consumer.ring_stage + 1;
    if (following == 0) consumer.ring_parity ^= 1;
    multiply_stage(consumer, consumer.ring_stage, [&] {
      consumer.wait_full(following, consumer.ring_parity);
#pragma unroll
      for (int m = 0; m + 1 < Consumer<C>::kWavesM; ++m) consumer.load_a_scales(following, m);
    });
    consumer.load_a_scales(following, Consumer<C>::kWavesM - 1);
    consumer.load_b_scales(following);
    consumer.ring_stage = following;
  }
}

// A tile in which none of the consumer's rows belong to the group: its stages are released, and nothing is
// multiplied. Only where no wave is staged under the products of another; without promotion ptxas spills.
template <class C>
inline constexpr bool kSkipsAbsentRows =
    kGroups<C> == Groups::rows && !stages_early(C::value) && C::value.promotion != Promotion::none;

template <class C>
__device__ __forceinline__ void skip_tile(Consumer<C>& consumer, int slices, bool more_tiles) {
  int stage = 0;
#pragma unroll 1
  for (int slice = 1; slice < slices; ++slice) {
    consumer.release(stage);
    stage = stage + 1 == C::value.stages ? 0 : stage + 1;
    consumer.wait_full(stage, consumer.phases >> stage & 1);
    consumer.phases ^= 1u << stage;
  }
  consumer.release(stage);
  if (more_tiles) consumer.await_unrolled(0, 0);
  consumer.take_next_scales();
  // Else the compiler makes a second epilogue, of zeros.
#pragma unroll
  for (int wave = 0; wave < Consumer<C>::kWaves; ++wave) ptx::pin(consumer.acc[wave]);
}

// The contraction of a tile.
template <class C>
__device__ __forceinline__ void multiply_tile(Consumer<C>& consumer, const Params<C>& params,
                                              const TileReader<C>& tiles) {
  // What a tile of groups is can be read once its first stage is full.
  if constexpr (C::value.promotion == Promotion::none) consumer.await_unrolled(0);
  const bool more_tiles = tiles.more(params);
  if constexpr (C::value.promotion != Promotion::none) consumer.clear();
  if constexpr (crosses_scale_blocks(C::value)) {
    consumer.crossing = opaque(kScaleBlock - first_col<C>(tiles.tile(params)) % kScaleBlock);
  }
  if constexpr (kSkipsAbsentRows<C>) {
    const GroupedTile tile = tiles.tile(params);
    if (tile.row + consumer_warpgroup() * consumer_rows(C::value) >= tile.end) {
      return skip_tile(consumer, tile.slices, more_tiles);
    }
  }
  if constexpr (stages_unrolled(C::value)) {
    constexpr auto kStages = std::make_integer_sequence<int, C::value.stages>();
    const auto at_begin = [&] {
      if constexpr (has_end_scales(C::value)) fetch_end_scales<C>(consumer.base, params, tiles);
    };
    const auto at_end = [&] {
      if constexpr (stages_early(C::value)) {
        if (is_staged_early<C>(params, tiles)) stage_first_wave(consumer, params);
      }
    };
    const auto at_last = [&] {
      if constexpr (C::value.in_turn) {
        if (more_tiles) pass_turn();
      }
    };
    const int slices = opaque(tiles.slices(params));
    if constexpr (C::value.promotion == Promotion::none) {
      multiply_unpromoted(consumer, slices, at_begin, at_last, at_end, kStages);
    } else {
      multiply_unrolled(consumer, slices, more_tiles, at_begin, at_end, kStages);
    }
  } else {
    multiply_rolled(consumer, tiles.slices(params));
  }
}

}  // namespace octet::sm90
