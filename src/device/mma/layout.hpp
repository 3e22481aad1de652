// Index maps of the Hopper tensor cores, as constexpr functions that host tests cover.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

// A shared-memory operand tile: rows of 128 bytes, 8 rows to a swizzle atom of 1024 bytes.
inline constexpr int kAtomRows = 8;
inline constexpr int kRowBytes = 128;

// Byte offset of 16-byte chunk `chunk` (0..7) of row `row` under the 128-byte swizzle.
OCTET_HOST_DEVICE constexpr int swizzle128(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row % kAtomRows)) << 4);
}

// The halves of a wgmma descriptor for a K-major tile with the 128-byte swizzle. The low one begins
// with the address in units of 16 bytes, so stepping through a tile is an addition.
inline constexpr std::uint32_t kDescriptorHigh =
    0x40000040;  // 128-byte swizzle, 1024 bytes per atom
OCTET_HOST_DEVICE constexpr std::uint32_t descriptor_low(std::uint32_t shared_address) {
  return ((shared_address & 0x3FFFF) >> 4) | (1u << 16);
}

// Where accumulator `index` of a thread of a warpgroup lies in its m64nN product.
OCTET_HOST_DEVICE constexpr int accumulator_row(int thread, int index) {
  return thread / 32 * 16 + thread % 32 / 4 + (index % 4 / 2) * 8;
}
OCTET_HOST_DEVICE constexpr int accumulator_col(int thread, int index) {
  return index / 4 * 8 + thread % 4 * 2 + index % 2;
}

// Rows of an operand b that are loaded in another order, 16 at a time, so that the four columns of
// d that a thread has of them are neighbours: row 8h + 2t + p of a group holds row 4t + 2h + p.
inline constexpr int kPairedGroup = 16;
OCTET_HOST_DEVICE constexpr int paired_column(int loaded) {
  const int p = loaded % 2;
  const int t = loaded % 8 / 2;
  const int h = loaded % kPairedGroup / 8;
  return loaded / kPairedGroup * kPairedGroup + 4 * t + 2 * h + p;
}

}  // namespace octet
