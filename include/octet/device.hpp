// Where a tensor lives and an operator runs. There is no current device: every view carries its
// own.
#pragma once

#include <octet/export.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

// Numbers are stable and equal to those of DLPack.
enum class DeviceType : std::int32_t { cpu = 1, cuda = 2 };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int32_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{};

// "cpu", "cuda:1".
OCTET_API std::string name(Device device);
// Reads "cpu", "cuda" or "cuda:1"; throws Error for anything else.
OCTET_API Device parse_device(std::string_view text);
// CUDA devices on this machine: 0 without a driver, and in a build without CUDA.
OCTET_API int cuda_device_count() noexcept;

}  // namespace octet
