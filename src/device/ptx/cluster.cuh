// Blocks of a cluster: who they are, how they meet, and copies and arrivals that reach all of them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all blocks are here, and see what was written before.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of what has this shared address in a block of the cluster, for arrivals.
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Without a scope beyond the block: that of the cluster would be compiled into a fence of the whole device.
// What is announced are reads that are done, and the copies they allow come long after.
__device__ __forceinline__ void barrier_arrive_in_block(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// load_box into the same place of every block in `blocks`, on the barrier of each.
__device__ __forceinline__ void load_box_for(std::uint16_t blocks, std::uint32_t to,
                                             const CUtensorMap* map, int x, int y,
                                             std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace octet::ptx
