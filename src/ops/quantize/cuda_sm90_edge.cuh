// For kernels with scales of their own: the transposed copy of a tile at the edge of the matrix, from
// shared memory.
#pragma once

#include "ops/quantize/cuda_sm90_copies.cuh"

namespace octet::sm90 {

// Every thread has filled its column_slot() before.
__device__ __forceinline__ void write_transposed_edge(const QuantizeStorage& shared,
                                                      const QuantizeParams& params,
                                                      const PatchPlace& place) {
#pragma unroll 1
  for (int pass = 0; pass < 4; ++pass) {
    const auto col = static_cast<int>(pass * 32 + threadIdx.x / 8);
    const auto chunk = static_cast<int>(threadIdx.x % 8);
    if (place.tile_col0() + col >= params.cols) continue;
    const uint4 bytes = load_chunk(shared, col, chunk, has_swapped_slots(col));
    const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    store_edge(params.transposed, place.tile_col0() + col, place.tile_row0() + chunk * 16,
               params.rows, words);
  }
}

}  // namespace octet::sm90
