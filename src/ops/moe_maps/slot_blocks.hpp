// Which slots the blocks and warps of the Hopper kernels take, host and device, and what lies where
// in their workspace. Warps have runs of neighbouring slots, so that the order of slots is that of
// blocks, then warps, then rounds of 32.
#pragma once

#include "core/numeric.hpp"

#include <octet/ops/moe_maps.hpp>

#include <cstddef>
#include <cstdint>

namespace octet {

struct SlotBlocks {
  static constexpr std::int32_t kWarps = 32;
  static constexpr std::int32_t kMaxBlocks =
      128;  // fewer than multiprocessors: one is for the table

  std::int32_t slots;
  std::int32_t blocks;
  std::int32_t warp_slots;  // a multiple of 32

  OCTET_HOST_DEVICE constexpr explicit SlotBlocks(std::int64_t slots_)
      : slots(static_cast<std::int32_t>(slots_)), blocks(1), warp_slots(32) {
    constexpr std::int64_t kMost = std::int64_t{kMaxBlocks} * kWarps * 32;
    warp_slots =
        static_cast<std::int32_t>(slots_ <= kMost ? 32 : (slots_ + kMost - 1) / kMost * 32);
    const std::int32_t block_slots = warp_slots * kWarps;
    if (slots > 0) blocks = (slots - 1) / block_slots + 1;
  }

  OCTET_HOST_DEVICE constexpr std::int32_t begin(std::int32_t block, std::int32_t warp) const {
    const std::int32_t first = (block * kWarps + warp) * warp_slots;
    return first < slots ? first : slots;
  }
  OCTET_HOST_DEVICE constexpr std::int32_t end(std::int32_t block, std::int32_t warp) const {
    return begin(block, warp + 1);
  }
};

// What the first kernel finds in the slots of one block, beside the counts of the experts.
struct BadSlots {
  std::int32_t count;
  std::int32_t first;  // the lowest slot, or `slots`
};

// The workspace: the slots of every block by expert, [blocks, groups], then BadSlots, [blocks].
constexpr std::size_t bad_slots_offset(const SlotBlocks& slots, std::int64_t groups) {
  const auto counts = static_cast<std::size_t>(slots.blocks) * static_cast<std::size_t>(groups);
  return (counts * sizeof(std::int32_t) + 7) / 8 * 8;
}
constexpr std::size_t maps_workspace_bytes(const SlotBlocks& slots, std::int64_t groups) {
  return bad_slots_offset(slots, groups) +
         static_cast<std::size_t>(slots.blocks) * sizeof(BadSlots);
}

// What becomes of the slots that chose an expert.
struct ExpertRows {
  std::uint32_t kept;  // within the capacity
  std::uint32_t begin;
  std::uint32_t size;  // that found room
};
OCTET_HOST_DEVICE constexpr std::uint32_t kept_slots(std::uint32_t wanted, std::uint32_t capacity) {
  return wanted < capacity ? wanted : capacity;
}
// `kept_before`: the sum of what the experts before it keep.
OCTET_HOST_DEVICE constexpr ExpertRows expert_rows(std::uint32_t kept, std::uint32_t kept_before,
                                                   std::uint32_t rows) {
  const std::uint32_t begin = kept_before < rows ? kept_before : rows;
  const std::uint32_t left = rows - begin;
  return {kept, begin, kept < left ? kept : left};
}

}  // namespace octet
