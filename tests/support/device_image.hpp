// A block of host memory and its image on a CUDA device. Views into one map to views into the
// other; gaps and guard bands are copied too.
#pragma once

#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

#include <cstdint>
#include <vector>

namespace octet::testing {

class DeviceImage {
 public:
  static constexpr Device kDevice{DeviceType::cuda, 0};

  DeviceImage(const void* host, std::size_t bytes)
      : host_(static_cast<const std::uint8_t*>(host)), memory_(bytes, kDevice) {
    upload();
  }

  void upload() const { cuda::copy(memory_.data(), host_, memory_.bytes(), 0); }

  std::vector<std::uint8_t> download() const {
    std::vector<std::uint8_t> bytes(memory_.bytes());
    cuda::copy(bytes.data(), memory_.data(), bytes.size(), 0);
    return bytes;
  }

  // The same place in the image.
  TensorView at(const TensorView& host_view) const {
    TensorView view = host_view;
    const auto offset = static_cast<const std::uint8_t*>(host_view.data) - host_;
    view.data = static_cast<std::uint8_t*>(memory_.data()) + offset;
    view.device = kDevice;
    return view;
  }

 private:
  const std::uint8_t* host_;
  Buffer memory_;
};

}  // namespace octet::testing
