// Blocks of a cluster: rank, barrier, and copies and arrivals across blocks.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Waits for all threads of all blocks of the cluster; writes before it are visible after it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// This shared address in another block of the cluster, for arrivals.
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// No cluster scope: ptxas would compile it into a fence of the whole device. None is needed, since the
// arrival announces finished reads, and the copies it allows come long after.
__device__ __forceinline__ void barrier_arrive_in_block(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Writes a word to shared memory of another block; the address is from in_block.
__device__ __forceinline__ void store_in_block(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

// load_box into the same shared address of every block in the mask `blocks`, each on its own barrier.
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
