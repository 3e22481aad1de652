// The order of scores and the places of experts in a warp, host and device.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

// Larger scores have larger keys, equal ones the same: zeros of both signs, and all NaNs, which are
// larger than every number. 0 is the key of no score.
OCTET_HOST_DEVICE constexpr std::uint32_t score_key(float score) {
  const std::uint32_t bits = bits_of(score);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0xFFFFFFFFu;
  if (magnitude == 0) return 0x80000000u;
  return bits == magnitude ? bits | 0x80000000u : ~bits;
}
OCTET_HOST_DEVICE constexpr float score_of_key(std::uint32_t key) {
  if (key == 0xFFFFFFFFu) return f32_from_bits(0x7FC00000u);
  return f32_from_bits(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

// A lane has `per_lane` neighbouring experts, a power of two, so the lanes' sums are neighbours of
// the tree, and the lower expert is in the lower lane. Numbers of experts reach global memory in
// another order, 32 neighbours at a time. In between they are in shared memory, in cells that no
// order of access finds in one bank.
OCTET_HOST_DEVICE constexpr int score_cell(int expert) { return expert + expert / 32; }
OCTET_HOST_DEVICE constexpr int score_cells(int per_lane) { return 33 * per_lane; }

}  // namespace octet
