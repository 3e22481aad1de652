// What the gates ask of a CUDA device. The .cu files beside it answer; cuda_absent.cpp where the
// build has no CUDA, which is never reached: there is no such device to hold a tensor. Every call
// has ended when it returns; device memory is what the caller gives and a few bytes.
#pragma once

#include "check/data/memory_rectangle.hpp"
#include "check/data/random.hpp"
#include "check/judge/compare_outputs.hpp"

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet::cuda {

// As octet::fill_random, in every bit.
void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream);

// Tiles of the reference product, numbered row of tiles by row of tiles; all pointers on the device.
struct TileBatch {
  QuantizedView a;                     // [M, K]
  QuantizedView b;                     // [N, K]
  const std::int64_t* rows = nullptr;  // of a, [row_count]
  std::int64_t row_count = 0;
  std::int64_t first_tile = 0;
  std::int64_t tile_count = 0;
  const double* fp8_values[2] = {};  // of a's and of b's codes, [256] each
  double* value = nullptr;           // [tile_count][128][128]
  float* magnitude = nullptr;        // the same; null where not asked for
};
void multiply_tiles(const TileBatch& batch);

// As octet's functions of these names.
void fill(const Rectangle& rectangle, unsigned char byte);
std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes);
std::int64_t count_not_finite(const Rectangle& rectangle);
OutputDifferences compare_whole_outputs(const TensorView& x, const TensorView& y);
double largest_finite(const TensorView& matrix);

// Within the device, or from it to the host.
void copy(const Rectangle& from, const Rectangle& to);
// Element by element between matrices of one shape and dtype in any strides.
void copy_matrix(const TensorView& from, const TensorView& to);
// to[i, :] = matrix[rows[i], :], dense; `rows` and `to` on the device.
void gather_rows(const TensorView& matrix, const std::int64_t* rows, const TensorView& to);

}  // namespace octet::cuda
