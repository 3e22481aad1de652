// Boxes of a tensor on their way into the L2 cache and no further.
#pragma once

#include <cuda.h>

namespace octet::ptx {

// The box of a 2-D tensor whose first element is at (x, y), x contiguous.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x),
               "r"(y)
               : "memory");
}

}  // namespace octet::ptx
