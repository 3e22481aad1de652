// Boxes of a tensor and their place in the L2 cache.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octet::ptx {

// Prefetches into the L2 cache the box of a 2-D tensor whose first element is at (x, y), x contiguous.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x),
               "r"(y)
               : "memory");
}

// store_box with an evict-first hint: other lines stay in the cache longer than this box.
__device__ __forceinline__ void store_box_evict_first(const CUtensorMap* map, std::uint32_t from,
                                                      int x, int y) {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2}], [%3], %4;" ::"l"(map),
      "r"(x), "r"(y), "r"(from), "l"(policy)
      : "memory");
}

}  // namespace octet::ptx
