// For the handles of libraries, which allocate when they are made.
#pragma once

#include "device/cuda/launch.hpp"

namespace octet::cuda {

// Lets a stream of this thread that is being captured survive an allocation.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace octet::cuda
