// Runs an operator on a CUDA device with host tensors: copies inputs in, runs, copies outputs back.
#pragma once

#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace octet::testing {

inline bool has_hopper() { return cuda_device_count() > 0 && cuda::properties(0).sm_major == 9; }

// First line of a test whose kernels need a Hopper GPU.
#define OCTET_NEEDS_HOPPER() \
  if (!octet::testing::has_hopper()) GTEST_SKIP() << "no Hopper GPU on this machine"

// Device copies of host views, with the same strides. Must outlive the run.
class OnCuda {
 public:
  static constexpr Device kDevice{DeviceType::cuda, 0};

  TensorView copy_in(const TensorView& host) {
    if (host.data == nullptr) return host;
    TensorView view = host;
    const std::size_t bytes = reach_bytes(host);
    buffers_.push_back(std::make_unique<Buffer>(bytes, kDevice));
    view.data = buffers_.back()->data();
    view.device = kDevice;
    cuda::copy(view.data, host.data, bytes, 0);
    return view;
  }

  QuantizedView copy_in(const QuantizedView& host) {
    QuantizedView view = host;
    view.values = copy_in(host.values);
    view.scales = copy_in(host.scales);
    return view;
  }

  static void copy_out(const TensorView& device, const TensorView& host) {
    if (host.data != nullptr) cuda::copy(host.data, device.data, reach_bytes(host), 0);
  }
  static void copy_out(const QuantizedView& device, const QuantizedView& host) {
    copy_out(device.values, host.values);
    copy_out(device.scales, host.scales);
  }

 private:
  // Up to the end of the last row's pitch, so that padding is copied too.
  static std::size_t reach_bytes(const TensorView& view) {
    std::int64_t reach = 1;
    for (int i = 0; i < view.rank; ++i) {
      reach = std::max(reach, view.shape[i] * view.strides[i]);
    }
    return static_cast<std::size_t>(reach * size_bytes(view.dtype));
  }

  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace octet::testing
