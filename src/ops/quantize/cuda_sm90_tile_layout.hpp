// Where the Hopper quantiser turns a tile: index maps as constexpr functions that host tests cover.
//
// A thread holds 8 rows by 8 columns of a 128x128 tile. The turned tile keeps a column in 128
// bytes, 16 slots of 8 rows, and the slots of a column are exchanged by its group of 8.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

inline constexpr int kTile = 128;
inline constexpr int kPatch = 8;  // rows and columns of one thread
inline constexpr int kQuantizeThreads = 256;

// Slot `slot` (8 rows) of column `col` in the turned tile: exchanged so that no two lanes meet.
OCTET_HOST_DEVICE constexpr int turned_slot(int col, int slot) { return slot ^ (col / kPatch); }

// Two neighbouring slots, 2 * chunk and the next, lie side by side: from this slot on,
OCTET_HOST_DEVICE constexpr int turned_pair(int col, int chunk) {
  return turned_slot(col, 2 * chunk) & ~1;
}
// and the other way round in every second group of columns.
OCTET_HOST_DEVICE constexpr bool turned_swapped(int col) { return col / kPatch % 2 == 1; }

}  // namespace octet::sm90
