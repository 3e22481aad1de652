// Index maps of tiles for the Hopper tensor cores, in shared memory and in the accumulators, as
// constexpr functions that host tests cover.
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

// The two words of a wgmma descriptor for a K-major tile with the 128-byte swizzle. The low word
// starts with the address in units of 16 bytes, so stepping through a tile is an addition.
inline constexpr std::uint32_t kDescriptorHigh =
    0x40000040;  // 128-byte swizzle, 1024 bytes per atom
OCTET_HOST_DEVICE constexpr std::uint32_t descriptor_low(std::uint32_t shared_address) {
  return ((shared_address & 0x3FFFF) >> 4) | (1u << 16);
}

// 16-bit tiles wider than a row of 128 bytes are panels of 64 columns, one behind the other: [panel][row][64].
//
// K-major (the contraction along a row): 16 of it are 32 bytes, and 64 a panel. `element` is a multiple of 16.
inline constexpr int kPanelCols = 64;
OCTET_HOST_DEVICE constexpr int panel_offset(int rows, int element) {
  return element / kPanelCols * rows * kRowBytes + element % kPanelCols * 2;
}
// MN-major (the contraction along the rows, 16 rows a step): the low word holds the bytes from panel to panel.
OCTET_HOST_DEVICE constexpr std::uint32_t descriptor_low_mn(std::uint32_t shared_address,
                                                            int rows) {
  return ((shared_address & 0x3FFFF) >> 4) | static_cast<std::uint32_t>(rows * kRowBytes >> 4)
                                                 << 16;
}
inline constexpr int kStepMnBytes = 16 * kRowBytes;

// Row and column of accumulator `index` in the m64nN product, for a thread of the warpgroup.
OCTET_HOST_DEVICE constexpr int accumulator_row(int thread, int index) {
  return thread / 32 * 16 + thread % 32 / 4 + (index % 4 / 2) * 8;
}
OCTET_HOST_DEVICE constexpr int accumulator_col(int thread, int index) {
  return index / 4 * 8 + thread % 4 * 2 + index % 2;
}

// Paired columns: rows of b are loaded in groups of 16 and permuted inside a group, so that the
// four columns of d that a thread gets from it are neighbours. Row 8h + 2t + p of shared memory
// holds row 4t + 2h + p of b.
inline constexpr int kPairedGroup = 16;
OCTET_HOST_DEVICE constexpr int paired_column(int loaded) {
  const int p = loaded % 2;
  const int t = loaded % 8 / 2;
  const int h = loaded % kPairedGroup / 8;
  return loaded / kPairedGroup * kPairedGroup + 4 * t + 2 * h + p;
}

// The columns of d that a thread holds, numbered in their order: where number `i` lies in the wave,
// and its accumulator in the upper of the thread's two rows (2 further on in the lower). A thread
// has `neighbours` columns side by side: 2 in order, 4 if paired.
OCTET_HOST_DEVICE constexpr int column_of_thread(int thread, int i, int neighbours) {
  return (i / neighbours * 4 + thread % 4) * neighbours + i % neighbours;
}
OCTET_HOST_DEVICE constexpr int accumulator_of_column(int i) { return i / 2 * 4 + i % 2; }

// Byte offset of a 16-byte chunk in rows of `cols` 16-bit elements, packed one after the other. The
// chunks of a row are permuted so that eight rows of one column share no bank. For 64 and 32
// columns this is the copy engine's 128-byte and 64-byte swizzle.
OCTET_HOST_DEVICE constexpr int swizzled_chunk(int cols, int row, int chunk) {
  return row * cols * 2 + (chunk ^ (cols == 32 ? row / 2 % 4 : row % 8)) * 16;
}

// A row of 16-bit elements at any address is cut at 16-byte boundaries. The first boundary is
// `lead` elements into the row. cols / 8 - 1 pieces of eight elements fit whatever the lead; the
// eight elements before the first piece and after the last are stored one by one.
OCTET_HOST_DEVICE constexpr int elements_before_boundary(std::uintptr_t address) {
  return -static_cast<int>(address / 2 % 8) & 7;
}

OCTET_HOST_DEVICE constexpr int piece_begin(int piece, int lead) { return 8 * piece + lead; }

OCTET_HOST_DEVICE constexpr int element_outside_pieces(int index, int lead, int cols) {
  return index < lead ? index : cols - 8 + index;
}

}  // namespace octet
