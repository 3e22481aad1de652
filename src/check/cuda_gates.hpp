// What the gates need from a CUDA device, implemented by the .cu files of src/check. A build
// without CUDA has cuda_absent.cpp instead, which is never reached: no tensor is on such a device.
// Every call is synchronous, and uses the device memory that the caller passes plus a few bytes.
#pragma once

#include "check/data/guarded.hpp"
#include "check/data/random.hpp"
#include "check/judge/compare_outputs.hpp"

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet::cuda {

// Writes the same bits as octet::fill_random.
void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream);

// Tiles of the reference product, numbered row-major; all pointers are on the device.
struct TileBatch {
  QuantizedView a;                     // [M, K]
  QuantizedView b;                     // [N, K]
  const std::int64_t* rows = nullptr;  // of a, [row_count]
  std::int64_t row_count = 0;
  std::int64_t first_tile = 0;
  std::int64_t tile_count = 0;
  const double* fp8_values[2] = {};  // by code, for a and for b, [256] each
  double* value = nullptr;           // [tile_count][128][128]
  float* magnitude = nullptr;        // the same shape; null if not needed
};
void multiply_tiles(const TileBatch& batch);

// The octet functions of the same names, on the device.
void fill(const Rectangle& rectangle, unsigned char byte);
std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes);
std::int64_t count_not_finite(const Rectangle& rectangle);
OutputDifferences compare_whole_outputs(const TensorView& x, const TensorView& y);
double largest_finite(const TensorView& matrix);

// Copies within the device, or from it to the host.
void copy(const Rectangle& from, const Rectangle& to);
// Copies element by element between matrices of one shape and dtype, with any strides.
void copy_matrix(const TensorView& from, const TensorView& to);
// to[i, :] = matrix[rows[i], :], dense; `rows` and `to` on the device.
void gather_rows(const TensorView& matrix, const std::int64_t* rows, const TensorView& to);

}  // namespace octet::cuda
