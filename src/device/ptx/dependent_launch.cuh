// Kernels that start while the kernel before them in the stream still drains (device/cuda/launch.hpp).
#pragma once

namespace octet::ptx {

// Returns once all earlier kernels have ended and their writes are visible. A kernel must not read or write
// global memory before it.
__device__ __forceinline__ void wait_for_earlier_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the next kernel of the stream be loaded onto the device. It still waits for this one to end.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace octet::ptx
