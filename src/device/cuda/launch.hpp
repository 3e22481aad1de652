// Launches of kernels that begin with ptx::wait_for_earlier_kernels().
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace octet::cuda {

struct Launch {
  const void* kernel;
  const char* name;  // for the message of a failure
  unsigned blocks;
  unsigned threads;
  std::size_t shared_bytes;  // dynamic
  cudaStream_t stream;
};

// On the current device. The kernel may be brought onto the device while the one before it in the stream still ends.
// Throws Error where the launch fails.
void launch(const Launch& launch, void** arguments);

}  // namespace octet::cuda
