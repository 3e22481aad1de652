// Finished tiles of 16-bit elements stored by the lanes, 16 bytes at a time, to rows with any
// alignment.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/global_memory.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"

namespace octet::sm90 {

// Eight rows of a wave in shared memory, as fill_rows16 writes them.
template <class C>
struct Rows16 {
  static_assert(stores_rows(C::value));
  static constexpr int kCols = wave_n(C::value);
  static constexpr int kLanes = kCols / 8;  // a row has as many chunks

  std::uint32_t staging;
  int lane;

  __device__ __forceinline__ std::uint32_t chunk_at(int row, int chunk) const {
    return staging + swizzled_chunk(kCols, row, chunk);
  }

  __device__ __forceinline__ std::uint16_t element(int row, int col) const {
    return ptx::load_shared_half(chunk_at(row, col / 8) + col % 8 * 2);
  }

  // To rows of any alignment. The 16 bytes between two boundaries of d lie in two chunks of shared
  // memory, and a lane shifts them together. The elements before a row's first boundary and after
  // its last, eight in all, are stored one per lane.
  __device__ __forceinline__ void store(const Params<C>& params, TargetOf<C> target, int first_row,
                                        int col) const {
    const int rows = end_row<C>(params, target) - first_row;
    const int cols = params.n - col;
    auto* d = d_of<std::uint16_t, C>(params, target) + first_row * params.d_pitch + col;
    if (cols < kCols) return store_singly(d, params.d_pitch, rows, cols);
#pragma unroll
    for (int step = 0; step < kAtomRows; step += 32 / kLanes) {
      const int row = step + lane / kLanes;
      const int piece = lane % kLanes;
      std::uint16_t* to = d + row * params.d_pitch;
      const int lead = elements_before_boundary(reinterpret_cast<std::uintptr_t>(to));
      std::uint32_t x[8];
      ptx::load_shared(chunk_at(row, piece), x[0], x[1], x[2], x[3]);
      ptx::load_shared(chunk_at(row, (piece + 1) % kLanes), x[4], x[5], x[6], x[7]);
#pragma unroll
      for (int i = 0; i < 6; ++i) x[i] = lead & 4 ? x[i + 2] : x[i];
#pragma unroll
      for (int i = 0; i < 5; ++i) x[i] = lead & 2 ? x[i + 1] : x[i];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = __funnelshift_r(x[i], x[i + 1], lead % 2 * 16);
      ptx::store_global_if(row < rows && piece < kLanes - 1, to + piece_begin(piece, lead), x[0],
                           x[1], x[2], x[3]);
    }
#pragma unroll
    for (int step = 0; step < kAtomRows; step += 4) {
      const int row = step + lane / 8;
      std::uint16_t* to = d + row * params.d_pitch;
      const int lead = elements_before_boundary(reinterpret_cast<std::uintptr_t>(to));
      const int at = element_outside_pieces(lane % 8, lead, kCols);
      ptx::store_global_if(row < rows, to + at, element(row, at));
    }
  }

  // To the last columns of d, where fewer than kCols are left.
  __device__ __forceinline__ void store_singly(std::uint16_t* d, std::int64_t pitch, int rows,
                                               int cols) const {
#pragma unroll 1
    for (int row = 0; row < min(rows, kAtomRows); ++row) {
#pragma unroll
      for (int at = 0; at < kCols; at += 32) {
        ptx::store_global_if(at + lane < cols, d + row * pitch + at + lane,
                             element(row, at + lane));
      }
    }
  }
};

}  // namespace octet::sm90
