// The other side of ptx/dependent_launch.cuh.
#pragma once

namespace octet::ptx {

// The kernel behind this one may be brought onto the device; it still waits for the end of this one.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace octet::ptx
