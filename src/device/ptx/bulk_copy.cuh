// The bulk tensor copy engine: global to shared on an mbarrier, shared to global in groups.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octet::ptx {

// A box of a 2-D tensor, its first element at (x, y), x contiguous; zero beyond the tensor.
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map, int x, int y,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same of a 3-D tensor, such as a batch of matrices.
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map, int x, int y,
                                         int z, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// The same of a 5-D tensor, such as heads, dense or ragged (cuda/tensor_map.hpp).
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map, int x, int y,
                                         int z, int w, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map, int x, int y,
                                         int z, int w, int v, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(barrier)
      : "memory");
}

// A box of a matrix whose rows are paired (mma/layout.hpp): x bytes along a row, groups from `group`.
__device__ __forceinline__ void load_paired_box(std::uint32_t to, const CUtensorMap* map, int x,
                                                int group, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %3, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(0), "r"(group), "r"(barrier)
      : "memory");
}

// `bytes` contiguous bytes, a multiple of 16 like both addresses.
__device__ __forceinline__ void load_bytes(std::uint32_t to, const void* from, std::uint32_t bytes,
                                           std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Fetches a tensor map before its first use.
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Prefetches into the L2 cache the box of a 2-D tensor whose first element is at (x, y), x
// contiguous.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x),
               "r"(y)
               : "memory");
}

__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map),
               "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Parts of a box beyond the tensor are not stored.
__device__ __forceinline__ void store_box(const CUtensorMap* map, std::uint32_t from, int x, int y,
                                          int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(from)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap* map, std::uint32_t from, int x, int y,
                                          int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          map),
      "r"(x), "r"(y), "r"(z), "r"(from)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap* map, std::uint32_t from, int x,
                                          int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(from)
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

__device__ __forceinline__ void store_box_evict_first(const CUtensorMap* map, std::uint32_t from,
                                                      int x, int y, int z) {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3}], [%4], %5;" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(from), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void store_box_evict_first(const CUtensorMap* map, std::uint32_t from,
                                                      int x, int y, int z, int w) {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3, %4}], [%5], %6;" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(from), "l"(policy)
      : "memory");
}

// Adds a box of f32 to what the tensor holds, at the L2 cache.
__device__ __forceinline__ void add_box(const CUtensorMap* map, std::uint32_t from, int x, int y) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
      "[%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(from)
      : "memory");
}

__device__ __forceinline__ void add_box(const CUtensorMap* map, std::uint32_t from, int x, int y,
                                        int z) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
      "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(from)
      : "memory");
}

__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// The shared memory of earlier stores may be written again.
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void wait_stores_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Ordinary writes to shared memory become visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace octet::ptx
