// Which lane of a warp is left with which of several sums (tree_sum.cuh): an index map that host tests
// cover.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

// In step i, lanes that differ in bit i give each other half of the values they still have.
OCTET_HOST_DEVICE constexpr int value_of_lane(int lane, int count) {
  int value = 0;
  for (int half = count / 2; half > 0; half /= 2) {
    value += (lane & 1) * half;
    lane >>= 1;
  }
  return value;
}

}  // namespace octet::sm90
