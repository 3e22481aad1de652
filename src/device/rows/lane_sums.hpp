// Which of several sums each lane of a warp ends up with (tree_sum.cuh): an index map in its own
// file, so that host tests cover it.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

// In step i, lanes that differ in bit i exchange half of the values they still have.
OCTET_HOST_DEVICE constexpr int value_of_lane(int lane, int count) {
  int value = 0;
  for (int half = count / 2; half > 0; half /= 2) {
    value += (lane & 1) * half;
    lane >>= 1;
  }
  return value;
}

}  // namespace octet::sm90
