// FP8 of any strides into rows that start on 16-byte boundaries, on Hopper. Memory-bound.
//
//   rows      the bytes of a row are contiguous, at any address: tiles of 32 rows by 512 bytes
//   columns   the bytes of a column are: tiles of 128x128, transposed in shared memory
//   elements  neither: the tiles of rows, gathered byte by byte
//
// A block takes tiles of values, then runs of scales, one after the other. Padding that belongs to
// the output is part of the tiles: zeros behind the values, ones behind the scales.
#pragma once

#include "device/ptx/barrier.cuh"
#include "ops/repack/cuda_sm90_byte_tile.hpp"

#include <cstdint>

namespace octet::sm90 {

inline constexpr int kRepackThreads = kByteTileThreads;
inline constexpr int kRepackWarps = kRepackThreads / 32;
inline constexpr int kRepackRows = 4;      // of a thread, in flight
inline constexpr int kScalesOfThread = 4;  // of a run

enum class RepackSource { rows, columns, elements };

constexpr int tile_rows(RepackSource source) {
  return source == RepackSource::columns ? kByteTile : kRepackWarps * kRepackRows;
}
constexpr int tile_bytes(RepackSource source) {  // of a row
  return source == RepackSource::columns ? kByteTile : 32 * kByteChunk;
}

struct RepackValues {
  const std::uint8_t* from;  // [rows, cols]
  std::int64_t strides[2];
  std::uint8_t* to;  // [rows, cols]
  std::int64_t pitch;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t width;  // bytes of a row that are written: with padding or without
  std::int64_t tiles_across;
  std::int64_t tiles;
};

// Scales as the lines of the output: of rows, or of columns.
struct RepackScales {
  const void* from;  // (line, position)
  void* to;
  std::int64_t from_strides[2];
  std::int64_t to_strides[2];
  std::int64_t length;  // of a line
  std::int64_t span;    // with padding that is written
  std::int64_t count;   // of all lines, with padding
  bool are_ue8m0;       // else f32
};

struct RepackParams {
  RepackValues values;
  RepackScales scales;
  std::int64_t steps;  // tiles and runs
};

struct Bytes16 {
  std::uint32_t words[4];
};

// Bytes at ... at + 15 of a line of `length` contiguous bytes, zeros behind its end. Reads nothing
// outside of the line.
__device__ __forceinline__ Bytes16 load_line(const std::uint8_t* line, std::int64_t at,
                                             std::int64_t length) {
  Bytes16 result{};
  const std::int64_t left = length - at;
  if (left <= 0) return result;
  const std::uint8_t* const from = line + at;
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (left >= kByteChunk && address % kByteChunk == 0) {
    const uint4 vector = *reinterpret_cast<const uint4*>(from);
    return {{vector.x, vector.y, vector.z, vector.w}};
  }
  // Words on their boundaries, shifted; where one reaches over an end of the line, single bytes.
  const auto skip = static_cast<unsigned>(address % 4);
  if (at >= skip && left >= (skip == 0 ? 16 : 20 - static_cast<int>(skip))) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(from - skip);
    std::uint32_t low = words[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t high = i < 3 || skip != 0 ? words[i + 1] : 0;
      result.words[i] = __funnelshift_r(low, high, 8 * skip);
      low = high;
    }
    return result;
  }
#pragma unroll
  for (int i = 0; i < kByteChunk; ++i) {
    if (i < left) result.words[i / 4] |= std::uint32_t{from[i]} << (8 * (i % 4));
  }
  return result;
}

// Bytes of a row that lie `stride` apart.
__device__ __forceinline__ Bytes16 gather_line(const std::uint8_t* line, std::int64_t stride,
                                               std::int64_t at, std::int64_t length) {
  Bytes16 result{};
#pragma unroll
  for (int i = 0; i < kByteChunk; ++i) {
    if (at + i >= length) continue;
    result.words[i / 4] |= std::uint32_t{line[(at + i) * stride]} << (8 * (i % 4));
  }
  return result;
}

// Stores what is before the end of a row of `width` bytes. The address is a multiple of 16.
__device__ __forceinline__ void store_line(std::uint8_t* line, std::int64_t at, std::int64_t width,
                                           const Bytes16& bytes) {
  if (width - at >= kByteChunk) {
    *reinterpret_cast<uint4*>(line + at) =
        make_uint4(bytes.words[0], bytes.words[1], bytes.words[2], bytes.words[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kByteChunk; ++i) {
    if (at + i < width) {
      line[at + i] = static_cast<std::uint8_t>(bytes.words[i / 4] >> (8 * (i % 4)));
    }
  }
}

template <RepackSource kSource>
__device__ __forceinline__ void copy_tile(const RepackValues& values, std::int64_t tile_row,
                                          std::int64_t tile_col) {
  const std::int64_t at = tile_col + threadIdx.x % 32 * kByteChunk;
  if (at >= values.width) return;
  Bytes16 bytes[kRepackRows];
#pragma unroll
  for (int i = 0; i < kRepackRows; ++i) {
    const std::int64_t row = tile_row + threadIdx.x / 32 + i * kRepackWarps;
    if (row >= values.rows) continue;
    const std::uint8_t* const line = values.from + row * values.strides[0];
    if constexpr (kSource == RepackSource::rows) {
      bytes[i] = load_line(line, at, values.cols);
    } else {
      bytes[i] = gather_line(line, values.strides[1], at, values.cols);
    }
  }
#pragma unroll
  for (int i = 0; i < kRepackRows; ++i) {
    const std::int64_t row = tile_row + threadIdx.x / 32 + i * kRepackWarps;
    if (row < values.rows) store_line(values.to + row * values.pitch, at, values.width, bytes[i]);
  }
}

// Words of four rows of a column each, to words of four columns of a row each.
__device__ __forceinline__ void transpose_bytes(std::uint32_t (&words)[4]) {
  const std::uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const std::uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const std::uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const std::uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

__device__ __forceinline__ void transpose_tile(const RepackValues& values, std::int64_t tile_row,
                                               std::int64_t tile_col, std::uint8_t* tile) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int chunk = loaded_chunk(thread);
  const int quad = loaded_quad(thread);
  Bytes16 columns[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const std::int64_t col = tile_col + 4 * quad + c;
    columns[c] = {};
    if (col >= values.cols) continue;
    columns[c] = load_line(values.from + col * values.strides[1], tile_row + chunk * kByteChunk,
                           values.rows);
  }
  __syncthreads();  // the tile before this one has been read
#pragma unroll
  for (int four = 0; four < kByteChunk / 4; ++four) {
    std::uint32_t words[4] = {columns[0].words[four], columns[1].words[four],
                              columns[2].words[four], columns[3].words[four]};
    transpose_bytes(words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = chunk * kByteChunk + 4 * four + i;
      *reinterpret_cast<std::uint32_t*>(tile + byte_quad_offset(row, quad)) = words[i];
    }
  }
  __syncthreads();
  const std::int64_t at = tile_col + stored_chunk(thread) * kByteChunk;
  if (at >= values.width) return;
#pragma unroll
  for (int round = 0; round < kByteTile / kByteRoundRows; ++round) {
    const int row = stored_row(thread) + round * kByteRoundRows;
    if (tile_row + row >= values.rows) continue;
    const uint4 vector =
        *reinterpret_cast<const uint4*>(tile + byte_chunk_offset(row, stored_chunk(thread)));
    store_line(values.to + (tile_row + row) * values.pitch, at, values.width,
               {{vector.x, vector.y, vector.z, vector.w}});
  }
}

template <class Scale>
__device__ __forceinline__ void copy_scale(const RepackScales& scales, std::int64_t line,
                                           std::int64_t position, Scale one) {
  auto* const to = static_cast<Scale*>(scales.to) + line * scales.to_strides[0];
  if (position >= scales.length) {
    to[position] = one;
    return;
  }
  to[position * scales.to_strides[1]] = static_cast<const Scale*>(
      scales.from)[line * scales.from_strides[0] + position * scales.from_strides[1]];
}

__device__ __forceinline__ void copy_scales(const RepackScales& scales, std::int64_t run) {
  constexpr int kRun = kRepackThreads * kScalesOfThread;
  const std::int64_t first_line = run * kRun / scales.span;
  const std::int64_t first = run * kRun % scales.span;
#pragma unroll
  for (int i = 0; i < kScalesOfThread; ++i) {
    const int place = static_cast<int>(threadIdx.x) + i * kRepackThreads;
    if (run * kRun + place >= scales.count) return;
    // A run has several lines, or at most one end of a line.
    std::int64_t position = first + place;
    std::int64_t line = first_line;
    if (scales.span < kRun) {
      line += static_cast<int>(position) / static_cast<int>(scales.span);
      position = static_cast<int>(position) % static_cast<int>(scales.span);
    } else if (position >= scales.span) {
      ++line;
      position -= scales.span;
    }
    if (scales.are_ue8m0) {
      copy_scale<std::uint8_t>(scales, line, position, 127);  // 2^0
    } else {
      copy_scale<std::uint32_t>(scales, line, position, 0x3F800000u);  // 1.0f
    }
  }
}

template <RepackSource kSource>
__global__ __launch_bounds__(kRepackThreads) void repack_kernel(
    const __grid_constant__ RepackParams params) {
  __shared__ alignas(16)
      std::uint8_t tile[kSource == RepackSource::columns ? kByteTile * kByteTile : kByteChunk];
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const RepackValues& values = params.values;
  for (std::int64_t step = blockIdx.x; step < params.steps; step += gridDim.x) {
    if (step >= values.tiles) {
      copy_scales(params.scales, step - values.tiles);
      continue;
    }
    const std::int64_t tile_row = step / values.tiles_across * tile_rows(kSource);
    const std::int64_t tile_col = step % values.tiles_across * tile_bytes(kSource);
    if constexpr (kSource == RepackSource::columns) {
      transpose_tile(values, tile_row, tile_col, tile);
    } else {
      copy_tile<kSource>(values, tile_row, tile_col);
    }
  }
}

}  // namespace octet::sm90
