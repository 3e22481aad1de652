// How a row of 16-bit elements that begins at any address is cut: into pieces of 16 bytes between
// boundaries, the first of which begins `lead` elements in. One piece fewer than the row has times 16
// bytes fits whatever the lead; eight elements are left, before the first piece and behind the last.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

OCTET_HOST_DEVICE constexpr int elements_before_boundary(std::uintptr_t address) {
  return -static_cast<int>(address / 2 % 8) & 7;
}

OCTET_HOST_DEVICE constexpr int piece_begin(int piece, int lead) { return 8 * piece + lead; }

OCTET_HOST_DEVICE constexpr int element_outside_pieces(int index, int lead, int cols) {
  return index < lead ? index : cols - 8 + index;
}

}  // namespace octet
