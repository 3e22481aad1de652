// Calls of the CUDA runtime, for the CUDA sources only: checked, on a selected device, and the
// launch of a kernel.
#pragma once

#include "core/message.hpp"

#include <cuda_runtime.h>

#include <cstddef>

namespace octet::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // a failed call leaves no trace for the next one
  fail(ErrorCode::device_error, "cuda: ", what, ": ", cudaGetErrorString(status));
}

// Selects a device for one scope, so that the caller's current device stays as it was.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    // A thread that never made a call has device 0 by name, but no context to encode tensor maps
    // in.
    thread_local int has_context = -1;
    changed_ = previous_ != device;
    if (!changed_ && has_context == device) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    has_context = device;
  }
  ~DeviceScope() {
    if (changed_) (void)cudaSetDevice(previous_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

struct Launch {
  const void* kernel;
  const char* name;  // for the message of a failure
  unsigned blocks;
  unsigned threads;
  std::size_t shared_bytes;  // dynamic
  cudaStream_t stream;
};

// Launches, on the current device, a kernel that begins with ptx::wait_for_earlier_kernels(): it
// may be brought onto the device while the one before it in the stream still ends. Throws Error
// where the launch fails.
void launch(const Launch& launch, void** arguments);

}  // namespace octet::cuda
