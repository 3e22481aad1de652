// Ragged rows: one 4-D tensor map of a matrix [T, cols] whose boxes end at any row the kernel names, so that
// a tile of 16-row boxes stops at the end of its group without a map per group.
//
//   extents   cols, 2^30, most, most
//   pitches         pitch, pitch, 2^34 - pitch bytes
//   a box     (col, 2^30 - end + row, end, 2^30)
//
// The address of the box is base + row * pitch + 2^30 * 2^34, which is base + row * pitch modulo 2^64. Rows
// from `end` on exceed the second extent, where the copy engine clips.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

inline constexpr std::int32_t kRaggedExtent = 1 << 30;
inline constexpr std::int64_t kMostRaggedExtent = (std::int64_t{1} << 31) - (1 << 16);

// Of the last dimension, in bytes.
constexpr std::int64_t ragged_pitch(std::int64_t pitch) { return (std::int64_t{1} << 34) - pitch; }

// The second coordinate of a box that begins at `row` of a group that ends before `end`.
OCTET_HOST_DEVICE constexpr std::int32_t ragged_row(std::int32_t row, std::int32_t end) {
  return kRaggedExtent - end + row;
}

}  // namespace octet
