// Kernels that may begin while an earlier one of their stream still ends (device/launch.hpp).
#pragma once

namespace octet::ptx {

// Returns once the kernels before this one have ended and what they wrote can be seen. Before it no
// global memory may be read or written.
__device__ __forceinline__ void wait_for_earlier_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace octet::ptx
