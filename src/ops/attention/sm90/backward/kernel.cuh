// The grid of the backward pass: key blocks of one chunk after the other, and dq blocks of earlier ones between
// them (schedule.hpp). dq reads dS from memory while the key blocks keep the tensor cores busy.
#pragma once

#include "ops/attention/sm90/backward/dq.cuh"

#include <algorithm>

namespace octet::attention {

template <class Keys, class Dq>
inline constexpr int kBackwardSharedBytes = static_cast<int>(std::max(sizeof(BackwardStorage<Keys>),
                                                                      sizeof(DqStorage<Dq>))) +
                                            1024;

template <class Keys, class Dq>
__global__ __launch_bounds__(kThreads, 1) void backward_kernel(
    const __grid_constant__ BackwardMaps maps, const __grid_constant__ BackwardParams params) {
  extern __shared__ std::uint8_t raw[];
  __shared__ BlockTask task;
  const std::uint32_t skipped = -ptx::shared_address(raw) & 1023;
  const std::uint32_t base = ptx::shared_address(raw) + skipped;
  if (threadIdx.x < 32 && ptx::elect_lane()) {
    for (const CUtensorMap* map :
         {&maps.k, &maps.v, &maps.q, &maps.dout, &maps.dk, &maps.dv, &maps.dq_k, &maps.dq}) {
      ptx::prefetch_map(map);
    }
  }
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (threadIdx.x == 0) task = next_task(params);
  __syncthreads();
  if (task.chunk < 0) return;
  if (task.is_dq) {
    run_dq<Dq>(base, reinterpret_cast<DqStorage<Dq>*>(raw + skipped)->work, maps, params, task);
  } else {
    run_keys<Keys>(base, reinterpret_cast<BackwardStorage<Keys>*>(raw + skipped)->work, maps,
                   params, task);
  }
}

}  // namespace octet::attention
