// The order in which one grid of the backward pass works. Host and device.
//
// dk and dv are bound by the tensor cores, dq by memory, so both run beside each other. Segment s has the key
// blocks of chunk s and, spread over its first part, the dq blocks of chunk s - kLag, whose dS is there by
// then. Blocks take their numbers in the order in which they start, and wait for blocks of smaller numbers only,
// so the grid cannot lock up:
//
//   dq of chunk c      waits for the keys of chunk c
//   keys of chunk c    wait for dq of chunk c - kSlots, whose room in the workspace they take, and, where sums
//                      are handed on, for those of the chunk before
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet::attention {

inline constexpr int kLag = 2;
inline constexpr int kSlots = 3;        // chunks whose dS is in the workspace at once
inline constexpr int kMostChunks = 48;  // of one launch
static_assert(kLag < kSlots, "a chunk would wait for one behind it");

// What a block does.
struct BlockTask {
  std::int32_t chunk;
  std::int32_t index;  // among the chunk's blocks of this kind
  bool is_dq;

  friend bool operator==(const BlockTask&, const BlockTask&) = default;
};

// Block `index` of a segment of so many blocks of both kinds. The last ones are key blocks: dq is done with the room
// of its chunk before the next segment asks for it.
OCTET_HOST_DEVICE constexpr BlockTask task_in_segment(std::int32_t segment, std::int32_t key_blocks,
                                                      std::int32_t dq_blocks, std::int32_t index) {
  const std::int64_t part = (std::int64_t{key_blocks} + dq_blocks) * 7 / 10;
  const std::int64_t spread = part > dq_blocks ? part : dq_blocks;
  if (index >= spread) return {segment, index - dq_blocks, false};
  const auto before = static_cast<std::int32_t>(index * std::int64_t{dq_blocks} / spread);
  const auto until = static_cast<std::int32_t>((index + std::int64_t{1}) * dq_blocks / spread);
  if (until > before) return {segment - kLag, before, true};
  return {segment, index - before, false};
}

// The segment of block `block`: the first that ends behind it.
OCTET_HOST_DEVICE constexpr std::int32_t segment_of(const std::int32_t* ends, std::int32_t count,
                                                    std::int32_t block) {
  std::int32_t first = 0;
  while (count > 1) {
    const std::int32_t half = count / 2;
    if (ends[first + half - 1] <= block) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return first;
}

}  // namespace octet::attention
