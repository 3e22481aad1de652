// Selecting a device and checking a call, for the CUDA sources alone.
#pragma once

#include "core/message.hpp"

#include <cuda_runtime.h>

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
    // Always: a thread that never made a call has device 0 by name, but no context to encode in.
    check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~DeviceScope() { (void)cudaSetDevice(previous_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace octet::cuda
