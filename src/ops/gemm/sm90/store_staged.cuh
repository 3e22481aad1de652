// 16-bit tiles that leave while the next tile is multiplied. The consumers write their results to shared memory, and
// a warp of their own stores them from there. Tiles of 160 and 192 columns have staging memory for all of it; those
// of 256x128 and 128x256 use the ring's last stage, too.
//
// The last stage is free for that from the last product of a tile until the next tile's slice of it is loaded.
// Consumers write after both have finished with the stage, and after the boxes of the tile before were read;
// the producer loads the stage again when the boxes in it were read, in every block it loads for.
#pragma once

#include "ops/gemm/sm90/bias.cuh"
#include "ops/gemm/sm90/consumer.cuh"
#include "ops/gemm/sm90/end_scales.cuh"
#include "ops/gemm/sm90/store_boxes.cuh"

#include <utility>

namespace octet::sm90 {

// Barriers of the block: consumer c waits at 1 + c until the other has finished its products, and its own
// warps meet at 3 + c.
inline constexpr int kOtherIsDone = 1;
inline constexpr int kOwnIsDone = 3;

// Waits until the boxes of the tile before have been read.
template <class C>
__device__ __forceinline__ void wait_for_staging(Consumer<C>& consumer) {
  ptx::barrier_wait(SharedStorage<C>::stored_at(consumer.base), consumer.phases >> 31);
  consumer.phases ^= Consumer<C>::kStoredPhase;
}

// Calls `step` with each number below kCount, a constant.
template <class Step, int... kNumbers>
__device__ __forceinline__ void for_numbers(const Step& step,
                                            std::integer_sequence<int, kNumbers...>) {
  (step(std::integral_constant<int, kNumbers>()), ...);
}

// Writes the results of a wave, whose products are done in all warps of the warpgroup, to shared memory and
// hands them to the storing warp.
template <class C, int kWave>
__device__ __forceinline__ void stage_wave(Consumer<C>& consumer, const Params<C>& params) {
  constexpr int kBoxCols = box_cols(C::value, 2);
  constexpr int kParts = parts_of_wave(C::value);
  const int lane = lane_index();
  int warpgroup = consumer_warpgroup();
  ptx::make_opaque(warpgroup);
  const std::uint32_t own_rows = consumer.base + warp_index() * (kBoxRows * kBoxCols * 2);
  for_numbers(
      [&](auto number) {
        constexpr int kPart = decltype(number)::value;
        constexpr int kOfTile = kWave * kParts + kPart;
        constexpr StagedPart part = staged_part(C::value, kGroups<C>, kOfTile);
        if constexpr (kOfTile == first_part_in_b(C::value)) {
          ptx::numbered_barrier_sync(kOtherIsDone + warpgroup, 256);
        }
        fill_box16<C::value.columns, kBoxCols>(&consumer.acc[kWave][kPart * kBoxCols / 2],
                                               own_rows + part.offset + warpgroup * part.apart,
                                               lane, params.d_dtype);
      },
      std::make_integer_sequence<int, kParts>());
  ptx::fence_shared_writes();
  __syncwarp();
  if (ptx::elect_lane()) {
    ptx::barrier_arrive(SharedStorage<C>::staged_at(consumer.base, warpgroup, kWave));
  }
}

// Whether the first wave of a tile is staged under the products of the second: results that are rounded as
// they are.
template <class C>
__device__ __forceinline__ bool is_staged_early(const Params<C>& params,
                                                const TileReader<C>& tiles) {
  if constexpr (!stages_early(C::value)) {
    return false;
  } else if constexpr (kGroups<C> == Groups::none) {
    return params.store == Store::staged && params.bias == nullptr;
  } else {
    return params.store == Store::staged && !tiles.zeros();
  }
}

// The first wave, while the products of the second are in flight.
template <class C>
__device__ __forceinline__ void stage_first_wave(Consumer<C>& consumer, const Params<C>& params) {
  wait_for_staging(consumer);
  int warpgroup = consumer_warpgroup();
  ptx::make_opaque(warpgroup);
  ptx::numbered_barrier_sync(kOwnIsDone + warpgroup, 128);
  if constexpr (has_end_scales(C::value)) apply_end_scales(consumer, 0);
  stage_wave<C, 0>(consumer, params);
}

// All that is left of a finished tile.
template <class C>
__device__ __forceinline__ void stage_tile(Consumer<C>& consumer, const Params<C>& params,
                                           const TileReader<C>& tiles) {
  const bool early = is_staged_early<C>(params, tiles);
  if (!early) wait_for_staging(consumer);
  int warpgroup = consumer_warpgroup();
  ptx::make_opaque(warpgroup);
  if constexpr (stages_in_ring(C::value)) {
    ptx::numbered_barrier_arrive(kOtherIsDone + 1 - warpgroup, 256);
    ptx::numbered_barrier_sync(kOwnIsDone + warpgroup, 128);
  }
  if constexpr (has_end_scales(C::value)) {
#pragma unroll
    for (int wave = 0; wave < Consumer<C>::kWaves; ++wave) {
      if (wave > 0 || !early) apply_end_scales(consumer, wave);
    }
  }
  if (!early) {
    if constexpr (kGroups<C> != Groups::none) {
      if (tiles.zeros()) consumer.clear();
    } else if (params.bias != nullptr) {
      constexpr StagedPart part =
          staged_part(C::value, kGroups<C>, stages_in_ring(C::value) ? kRingPartInStaging : 0);
      constexpr int kOwnBytes = staged_part_bytes(C::value) / 4;
      static_assert(kOwnBytes >= consumer_cols(C::value) * 4, "room for the bias");
      const std::uint32_t staging =
          consumer.base + part.offset + warpgroup * part.apart + warp_index() * kOwnBytes;
      const int col = first_col<C>(tiles.tile(params)) + consumer_col<C>(warpgroup);
      add_bias(consumer, params, col, staging);
    }
    stage_wave<C, 0>(consumer, params);
  }
  if constexpr (Consumer<C>::kWaves == 2) stage_wave<C, 1>(consumer, params);
}

// The position of a block's first tile, as the producer counts, and from there to the next.
template <class C>
__device__ __forceinline__ int first_position() {
  return kGroups<C> == Groups::none ? blockIdx.x / C::value.cluster : 0;
}
template <class C>
__device__ __forceinline__ int position_step() {
  return kGroups<C> == Groups::none ? gridDim.x / C::value.cluster : 1;
}

// Tells the producers that load this block's stages which tiles have left the last one.
template <class C>
__device__ __forceinline__ void announce_stored(std::uint32_t base, int before) {
  using Storage = SharedStorage<C>;
  if constexpr (C::value.cluster > 1) {
    const std::uint32_t own =
        Storage::stored_before_at(base, static_cast<int>(ptx::cluster_rank()));
#pragma unroll
    for (int block = 0; block < C::value.cluster; ++block) {
      ptx::store_in_block(ptx::in_block(own, block), before);
    }
  } else {
    ptx::store_shared(Storage::stored_before_at(base, 0), before);
  }
}

// One lane of the storing warp.
template <class C>
__device__ __forceinline__ void store_boxes_of_tiles(std::uint32_t base, const Maps<C>& maps,
                                                     const Params<C>& params) {
  using Storage = SharedStorage<C>;
  TileReader<C> tiles(base, params);
  std::uint32_t parity = 0;
  [[maybe_unused]] int position = first_position<C>();
#pragma unroll 1
  while (tiles.valid(params)) {
    ptx::barrier_wait(Storage::staged_at(base, 0, 0), parity);
    const TileOf<C> tile = tiles.tile(params);
    tiles.advance();
    const TargetOf<C> target = target_of<C>(tile);
    for_numbers(
        [&](auto number) {
          constexpr int kPart = decltype(number)::value;
          constexpr StagedPart part = staged_part(C::value, kGroups<C>, kPart);
          constexpr int kRowsApart = consumer_rows(C::value);
#pragma unroll
          for (int consumer = 0; consumer < kConsumers; ++consumer) {
            if (kPart % parts_of_wave(C::value) == 0) {
              constexpr int kWave = kPart / parts_of_wave(C::value);
              ptx::barrier_wait(Storage::staged_at(base, consumer, kWave), parity);
            }
            store_box_to<C>(&maps.d, base + part.offset + consumer * part.apart, target,
                            first_row<C>(tile) + part.row + consumer * kRowsApart,
                            first_col<C>(tile) + part.col);
          }
        },
        std::make_integer_sequence<int, staged_parts(C::value)>());
    ptx::commit_stores();
    ptx::wait_stores_read();
    if constexpr (stages_in_ring(C::value)) {
      position += position_step<C>();
      announce_stored<C>(base, position);
    }
    ptx::barrier_arrive(Storage::stored_at(base));
    parity ^= 1;
  }
  ptx::wait_stores_done();
}

// The storing warp. No block of a cluster ends before the others have been told what it stored.
template <class C>
__device__ void store_staged_tiles(std::uint32_t base, const Maps<C>& maps,
                                   const Params<C>& params) {
  if (params.store != Store::staged) return;
  if (ptx::elect_lane()) store_boxes_of_tiles<C>(base, maps, params);
  __syncwarp();
  if constexpr (C::value.cluster > 1) ptx::cluster_sync();
}

}  // namespace octet::sm90
