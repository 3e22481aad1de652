// out[r, c] = round(code[r, c] * scale[r / block.rows, c / block.cols]) on Hopper.
//
// A block has a tile of 32 rows by 256 columns, a warp every eighth row of it, and a lane eight
// neighbouring columns of four rows, whose loads are in flight together: 8 bytes of codes become 16
// of a 16-bit output, so that both are contiguous over a warp. Memory-bound.
//
// Eight columns have one scale per row, or, in blocks of one column, one scale each for all rows of
// the tile. Codes and outputs of any alignment and stride take a kernel that moves single elements.
#pragma once

#include "core/block_scales.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/fp8_halves.cuh"
#include "device/rows/eight.cuh"
#include "device/rows/element.cuh"
#include "ops/dequantize/problem.hpp"

namespace octet::sm90 {

inline constexpr int kDequantizeThreads = 256;
inline constexpr int kDequantizeWarps = kDequantizeThreads / 32;
inline constexpr int kDequantizeRows =  // of a thread
    static_cast<int>(kDequantizeTileRows) / kDequantizeWarps;
static_assert(kDequantizeTileCols == 32 * kEight);
static_assert(kBlock % kDequantizeTileRows == 0, "a tile would have several scales of a column");

struct Fp8Codes {
  const std::uint8_t* data;  // [rows, cols]
  std::int64_t row_stride;
  std::int64_t col_stride;
};

struct BlockScales {
  const void* data;  // [blocks of rows, blocks of columns]
  bool are_ue8m0;    // else f32
  std::int64_t strides[2];
  int rows_log2;  // of a block
  int cols_log2;

  __device__ __forceinline__ bool has_one_per_column() const { return cols_log2 == 0; }
  __device__ __forceinline__ float at(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = (row >> rows_log2) * strides[0] + (col >> cols_log2) * strides[1];
    if (are_ue8m0) return f32_from_ue8m0(static_cast<const std::uint8_t*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
};

struct DequantizeParams {
  Fp8Codes codes;
  BlockScales scales;
  Matrix out;  // [rows, cols]
  Dtype out_dtype;
  std::int64_t rows;
  std::int64_t cols;
  unsigned tiles_across;
};

// The tile of this block, and the thread's place in it.
struct DequantizePlace {
  std::int64_t row;  // the first of the thread's rows, which are kDequantizeWarps apart
  std::int64_t col;  // the first column of the tile
  int lane;

  __device__ explicit DequantizePlace(const DequantizeParams& params)
      : row(std::int64_t{blockIdx.x / params.tiles_across} * kDequantizeTileRows +
            threadIdx.x / 32),
        col(std::int64_t{blockIdx.x % params.tiles_across} * kDequantizeTileCols),
        lane(static_cast<int>(threadIdx.x % 32)) {}
};

// Eight codes of a row; zeros behind the first `count`.
__device__ __forceinline__ uint2 load_codes(const std::uint8_t* from, int count) {
  if (count >= kEight) return *reinterpret_cast<const uint2*>(from);
  std::uint32_t words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    if (i < count) words[i / 4] |= std::uint32_t{from[i]} << (8 * (i % 4));
  }
  return make_uint2(words[0], words[1]);
}

// Two codes as f16, which has every value of both formats.
template <Dtype kFormat>
__device__ __forceinline__ std::uint32_t halves_of(std::uint16_t codes) {
  if constexpr (kFormat == Dtype::e5m2) return ptx::halves_from_e5m2x2(codes);
  return ptx::halves_from_e4m3x2(codes);
}

template <Dtype kFormat>
__device__ __forceinline__ void decode_eight(uint2 codes, float (&values)[kEight]) {
#pragma unroll
  for (int pair = 0; pair < kEight / 2; ++pair) {
    const std::uint32_t word = pair < 2 ? codes.x : codes.y;
    const std::uint32_t halves =
        halves_of<kFormat>(static_cast<std::uint16_t>(word >> (16 * (pair % 2))));
    values[2 * pair] = ptx::f32_from_f16_bits(halves & 0xFFFFu);
    values[2 * pair + 1] = ptx::f32_from_f16_bits(halves >> 16);
  }
}

template <Dtype kOut>
__device__ __forceinline__ void store_products(const DequantizeParams& params, std::int64_t row,
                                               std::int64_t col, int count,
                                               const float (&values)[kEight]) {
  Eight<kOut> eight;
  eight.assign(values);
  char* to =
      static_cast<char*>(params.out.data) + (row * params.out.pitch + col) * kElementBytes<kOut>;
  if (count >= kEight) {
    store_eight(to, eight);
  } else {
    store_singly(to, eight, count);
  }
}

template <Dtype kOut, Dtype kFormat>
__global__ __launch_bounds__(kDequantizeThreads) void dequantize_vectors_kernel(
    const __grid_constant__ DequantizeParams params) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const DequantizePlace place(params);
  const std::int64_t col = place.col + place.lane * kEight;
  if (col >= params.cols) return;
  const int count = params.cols - col < kEight ? static_cast<int>(params.cols - col) : kEight;
  uint2 codes[kDequantizeRows];
#pragma unroll
  for (int i = 0; i < kDequantizeRows; ++i) {
    const std::int64_t row = place.row + i * kDequantizeWarps;
    if (row >= params.rows) continue;
    codes[i] = load_codes(params.codes.data + row * params.codes.row_stride + col, count);
  }
  const bool one_per_column = params.scales.has_one_per_column();
  float of_columns[kEight] = {};
  if (one_per_column && place.row < params.rows) {
#pragma unroll
    for (int c = 0; c < kEight; ++c) {
      if (c < count) of_columns[c] = params.scales.at(place.row, col + c);
    }
  }
#pragma unroll
  for (int i = 0; i < kDequantizeRows; ++i) {
    const std::int64_t row = place.row + i * kDequantizeWarps;
    if (row >= params.rows) continue;
    float values[kEight];
    decode_eight<kFormat>(codes[i], values);
    const float of_row = one_per_column ? 0.0f : params.scales.at(row, col);
#pragma unroll
    for (int c = 0; c < kEight; ++c) {
      values[c] = __fmul_rn(values[c], one_per_column ? of_columns[c] : of_row);
    }
    store_products<kOut>(params, row, col, count, values);
  }
}

template <Dtype kFormat>
__global__ __launch_bounds__(kDequantizeThreads) void dequantize_elements_kernel(
    const __grid_constant__ DequantizeParams params) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const DequantizePlace place(params);
#pragma unroll 1
  for (int i = 0; i < kDequantizeRows; ++i) {
    const std::int64_t row = place.row + i * kDequantizeWarps;
    if (row >= params.rows) return;
#pragma unroll
    for (int c = 0; c < kEight; ++c) {
      const std::int64_t col = place.col + 32 * c + place.lane;  // neighbours in neighbouring lanes
      if (col >= params.cols) continue;
      const std::uint16_t code =
          params.codes.data[row * params.codes.row_stride + col * params.codes.col_stride];
      const float value = ptx::f32_from_f16_bits(halves_of<kFormat>(code) & 0xFFFFu);
      store_element(params.out.data, row * params.out.pitch + col, params.out_dtype,
                    __fmul_rn(value, params.scales.at(row, col)));
    }
  }
}

}  // namespace octet::sm90
