// The list of query tiles of ragged sequences, made on the device: the host does not know their lengths.
//
// One block sorts the tiles by the number of key blocks they see, most first, by counting. The order of tiles
// that see as many is arbitrary; it decides when a tile is computed, never how.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/scheduler/block_scan.cuh"
#include "ops/attention/sm90/forward/work.hpp"

#include <octet/dtype.hpp>

namespace octet::attention {

inline constexpr int kListThreads = sm90::kScanThreads;
inline constexpr int kLengths = kListThreads;  // that are told apart

struct ListParams {
  const void* offsets_q;   // [batch + 1]
  const void* offsets_kv;  // the same
  bool offsets_i64;
  std::int32_t batch;
  std::int32_t total_q;
  std::int32_t total_kv;
  AttentionMask mask;
  std::int32_t tile_q;
  std::int32_t tile_k;
  std::int32_t shift;     // key blocks >> shift < kLengths
  std::int32_t capacity;  // of `tiles`
  SequenceTile* tiles;
  std::int32_t* tile_count;
  std::int32_t* next_item;  // set to 0
};

// Rows [begin, end) of a sequence, clamped to those of the tensor; of the last one, those behind all.
__device__ __forceinline__ void find_rows(const ListParams& params, const void* offsets,
                                          std::int32_t total, std::int32_t sequence,
                                          std::int32_t& begin, std::int32_t& end) {
  const auto at = [&](std::int32_t index) {
    const std::int64_t row = params.offsets_i64 ? static_cast<const std::int64_t*>(offsets)[index]
                                                : static_cast<const std::int32_t*>(offsets)[index];
    return static_cast<std::int32_t>(row < 0 ? 0 : row > total ? total : row);
  };
  begin = at(sequence);
  end = sequence < params.batch ? max(begin, at(sequence + 1)) : total;
}

// Calls visit(tile, length) for the tiles of all sequences: a warp has a sequence, a lane some tiles.
template <class Visit>
__device__ __forceinline__ void for_each_tile(const ListParams& params, const Visit& visit) {
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  for (std::int32_t b = warp; b <= params.batch; b += kListThreads / 32) {
    SequenceTile tile{};
    find_rows(params, params.offsets_q, params.total_q, b, tile.q_begin, tile.q_end);
    find_rows(params, params.offsets_kv, params.total_kv, b, tile.k_begin, tile.k_end);
    if (b == params.batch) tile.k_end = tile.k_begin;
    tile.sequence = b < params.batch ? b : kBehindSequences;
    const std::int32_t queries = tile.q_end - tile.q_begin;
    const SequenceMask mask(params.mask, queries, tile.k_end - tile.k_begin);
    for (tile.row = lane * params.tile_q; tile.row < queries; tile.row += 32 * params.tile_q) {
      const std::int32_t last = min(tile.row + params.tile_q, queries) - 1;
      visit(tile, mask.key_blocks(tile.row, last, params.tile_k).count());
    }
  }
}

__global__ __launch_bounds__(kListThreads) void list_tiles_kernel(
    const __grid_constant__ ListParams params) {
  __shared__ std::uint32_t places[kLengths];  // tiles of each length, then where the next one goes
  __shared__ std::uint32_t totals[sm90::kScanWarps];
  ptx::wait_for_earlier_kernels();
  // The most key blocks first.
  const auto order = [&](std::int32_t length) { return kLengths - 1 - (length >> params.shift); };
  places[threadIdx.x] = 0;
  __syncthreads();
  for_each_tile(params, [&](const SequenceTile&, std::int32_t length) {
    atomicAdd(&places[order(length)], 1u);
  });
  __syncthreads();
  const std::uint32_t count = places[threadIdx.x];
  const std::uint32_t end = sm90::scan_sums(count, totals);
  places[threadIdx.x] = end - count;
  if (threadIdx.x == kListThreads - 1) {
    *params.tile_count = min(static_cast<std::int32_t>(end), params.capacity);
    *params.next_item = 0;
  }
  __syncthreads();
  for_each_tile(params, [&](const SequenceTile& tile, std::int32_t length) {
    const auto place = static_cast<std::int32_t>(atomicAdd(&places[order(length)], 1u));
    // Offsets that descend could make more tiles than there is room for.
    if (place < params.capacity) params.tiles[place] = tile;
  });
}

}  // namespace octet::attention
