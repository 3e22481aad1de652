// Scales of rows and columns that a product applies at its end: d = (acc * sa[row]) * sb[column].
//
// Each warp copies the scales of its own rows and columns to shared memory, under the first products of a tile, and
// reads them when the tile is finished. The copies are asynchronous and need neither registers nor a barrier of the
// block. One scale of a whole tensor is read as if every row had it.
#pragma once

#include "ops/gemm/sm90/consumer.cuh"

namespace octet::sm90 {

// A warp's own scales in shared memory.
template <class C>
struct EndScales {
  std::uint32_t rows;  // [16 * waves_m]
  std::uint32_t cols;  // [consumer_cols]

  __device__ __forceinline__ explicit EndScales(std::uint32_t base) {
    const int warp = consumer_warpgroup() * 4 + warp_index();
    rows = base + offsetof(SharedStorage<C>, a_scales) + warp * rows_of_warp(C::value) * 4;
    cols = base + offsetof(SharedStorage<C>, b_scales) + warp * consumer_cols(C::value) * 4;
  }
};

// Begins to copy the scales of the current tile; zeros beyond M and N, where nothing is stored.
template <class C>
__device__ __forceinline__ void fetch_end_scales(std::uint32_t base, const EndScaledParams& params,
                                                 const TileReader<C>& tiles) {
  constexpr Sm90GemmConfig c = C::value;
  const EndScales<C> own(base);
  const TileOf<C> tile = tiles.tile(params);
  const int warpgroup = consumer_warpgroup();
  const int lane = lane_index();
  const int row0 = first_row<C>(tile) + warp_index() * 16 + consumer_row<C>(warpgroup);
  const int col0 = first_col<C>(tile) + consumer_col<C>(warpgroup);
  __syncwarp();  // all lanes have read those of the tile before
  if (lane < rows_of_warp(c)) {
    const int row = row0 + lane / 16 * kWaveM + lane % 16;
    ptx::copy_word_or_zero(own.rows + lane * 4, params.a_rows + row * params.a_step,
                           row < params.m);
  }
#pragma unroll
  for (int i = 0; i < consumer_cols(c); i += 32) {
    const int col = col0 + i + lane;
    ptx::copy_word_or_zero(own.cols + (i + lane) * 4, params.b_rows + col * params.b_step,
                           col < params.n);
  }
}

// Scales the finished accumulators of a wave.
template <class C>
__device__ __forceinline__ void apply_end_scales(Consumer<C>& consumer, int wave) {
  using Consumer = Consumer<C>;
  static_assert(rows_of_warp(C::value) <= 32, "one row per lane");
  const EndScales<C> own(consumer.base);
  const int lane = lane_index();
  ptx::wait_copies();
  __syncwarp();
  const std::uint32_t rows = own.rows + (wave / Consumer::kWavesN * 16 + lane / 4) * 4;
  const float upper = ptx::load_shared(rows);
  const float lower = ptx::load_shared(rows + 32);
  const std::uint32_t cols =
      own.cols + (wave % Consumer::kWavesN * wave_n(C::value) + lane % 4 * 2) * 4;
#pragma unroll
  for (int i = 0; i < Consumer::kValues; i += 4) {
    float left;
    float right;
    ptx::load_shared(cols + i * 8, left, right);
    float* acc = &consumer.acc[wave][i];
    acc[0] = __fmul_rn(__fmul_rn(acc[0], upper), left);
    acc[1] = __fmul_rn(__fmul_rn(acc[1], upper), right);
    acc[2] = __fmul_rn(__fmul_rn(acc[2], lower), left);
    acc[3] = __fmul_rn(__fmul_rn(acc[3], lower), right);
  }
}

}  // namespace octet::sm90
