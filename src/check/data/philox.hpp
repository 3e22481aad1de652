// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
// ten rounds of multiplications and exclusive ors turn a counter and a key into four random words.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

struct PhiloxBlock {
  std::uint32_t word[4];
};

struct PhiloxKey {
  std::uint32_t word[2];
};

OCTET_HOST_DEVICE constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(right >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(right),
                static_cast<std::uint32_t>(left >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(left)}};
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace octet
