// The transposed tile of the Hopper quantiser in shared memory: index maps as constexpr functions
// that host tests cover.
//
// A thread holds 8 rows by 8 columns of a 128x128 tile. The transposed tile keeps a column in 128
// bytes: 16 slots of 8 rows. The slots of a column are permuted by the number of its group of 8
// columns.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

inline constexpr int kTile = 128;
inline constexpr int kPatch = 8;  // rows and columns of a thread
inline constexpr int kQuantizeThreads = 256;

// The slot that holds rows 8 * rows ... 8 * rows + 7 of column `col`. The permutation avoids bank
// conflicts.
OCTET_HOST_DEVICE constexpr int slot_of_rows(int col, int rows) { return rows ^ (col / kPatch); }

// The first of the two slots that hold rows 16 * chunk ... 16 * chunk + 15, side by side. In every
// second group of columns the two are swapped.
OCTET_HOST_DEVICE constexpr int slot_of_chunk(int col, int chunk) {
  return slot_of_rows(col, 2 * chunk) & ~1;
}
OCTET_HOST_DEVICE constexpr bool has_swapped_slots(int col) { return col / kPatch % 2 == 1; }

}  // namespace octet::sm90
