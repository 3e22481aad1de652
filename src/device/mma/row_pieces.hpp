// Rows of 16-bit elements in pieces of 16 bytes: where they lie in shared memory, and where in memory.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

// Where a chunk of 16 bytes lies in shared memory, rows of `cols` one behind the other: the chunks of a row
// are swapped so that those of one column of eight rows meet on no bank. 64 columns and 32 are the copy
// engine's 128-byte and 64-byte swizzle.
OCTET_HOST_DEVICE constexpr int swizzled_chunk(int cols, int row, int chunk) {
  return row * cols * 2 + (chunk ^ (cols == 32 ? row / 2 % 4 : row % 8)) * 16;
}

// How a row that begins at any address is cut: into pieces between 16-byte boundaries, the first of which
// begins `lead` elements in. One piece fewer than the row has times 16 bytes fits whatever the lead; eight
// elements are left, before the first piece and behind the last.
OCTET_HOST_DEVICE constexpr int elements_before_boundary(std::uintptr_t address) {
  return -static_cast<int>(address / 2 % 8) & 7;
}

OCTET_HOST_DEVICE constexpr int piece_begin(int piece, int lead) { return 8 * piece + lead; }

OCTET_HOST_DEVICE constexpr int element_outside_pieces(int index, int lead, int cols) {
  return index < lead ? index : cols - 8 + index;
}

}  // namespace octet
