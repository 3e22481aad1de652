// The order in which a persistent grid visits the tiles of d: groups of `group_m` tile rows, and
// inside a group column after column, so that the tiles in flight share operands in the L2 cache.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

struct TileIndex {
  int m;
  int n;
};

struct Raster {
  int tiles_m;
  int tiles_n;
  int group_m;

  OCTET_HOST_DEVICE constexpr int count() const { return tiles_m * tiles_n; }

  OCTET_HOST_DEVICE constexpr TileIndex tile(int index) const {
    const int per_group = group_m * tiles_n;
    const int group = index / per_group;
    const int first_m = group * group_m;
    const int height = tiles_m - first_m < group_m ? tiles_m - first_m : group_m;
    const int rest = index - group * per_group;
    return {first_m + rest % height, rest / height};
  }
};

}  // namespace octet
