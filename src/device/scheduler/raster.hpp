// The order in which a persistent grid visits the tiles of d: groups of `group_m` tile rows, and
// column after column inside a group, so that the tiles in flight share operands in the L2 cache.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

// Divides a non-negative number by a divisor known at launch: one multiplication and one shift.
struct Divisor {
  std::uint32_t value;
  std::uint32_t factor;  // 2^(31 + shift) / value, rounded up
  std::uint32_t shift;   // 2^shift is at least `value`

  OCTET_HOST_DEVICE constexpr explicit Divisor(int value_)
      : value(static_cast<std::uint32_t>(value_)), factor(0), shift(0) {
    while (1u << shift < value) ++shift;
    factor = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift)) + value - 1) / value);
  }
  OCTET_HOST_DEVICE constexpr int quotient(int number) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(number)} * factor >>
                            (31 + shift));
  }
};

struct TileIndex {
  int m;
  int n;
};

struct Raster {
  int tiles_m;
  int tiles_n;
  int group_m;
  Divisor group_tiles;
  Divisor height;       // tile rows of a group
  Divisor last_height;  // tile rows of the last group

  OCTET_HOST_DEVICE constexpr Raster() : Raster(1, 1, 1) {}
  OCTET_HOST_DEVICE constexpr Raster(int tiles_m_, int tiles_n_, int group_m_)
      : tiles_m(tiles_m_),
        tiles_n(tiles_n_),
        group_m(group_m_),
        group_tiles(group_m_ * tiles_n_),
        height(group_m_),
        last_height(tiles_m_ % group_m_ == 0 ? group_m_ : tiles_m_ % group_m_) {}

  OCTET_HOST_DEVICE constexpr int count() const { return tiles_m * tiles_n; }

  OCTET_HOST_DEVICE constexpr TileIndex tile(int index) const {
    const int group = group_tiles.quotient(index);
    const int first_m = group * group_m;
    const int rest = index - first_m * tiles_n;
    const Divisor& own_height = tiles_m - first_m < group_m ? last_height : height;
    const int n = own_height.quotient(rest);
    return {first_m + rest - n * static_cast<int>(own_height.value), n};
  }
};

}  // namespace octet
