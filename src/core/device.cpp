#include <octet/device.hpp>

#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <charconv>

namespace octet {
namespace cuda {
namespace {

thread_local const PretendedDevice* this_thread_pretends = nullptr;

}  // namespace

Pretend::Pretend(const PretendedDevice& device) : device_(device), before_(this_thread_pretends) {
  this_thread_pretends = &device_;
}
Pretend::~Pretend() { this_thread_pretends = before_; }
const PretendedDevice* pretended() { return this_thread_pretends; }

}  // namespace cuda

std::string name(Device device) {
  switch (device.type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return text("cuda:", device.index);
  }
  return text("device type ", static_cast<std::int32_t>(device.type));
}

int cuda_device_count() noexcept { return cuda::pretended() != nullptr ? 1 : cuda::device_count(); }

Device parse_device(std::string_view text) {
  if (text == "cpu") return kCpu;
  if (text == "cuda") return {DeviceType::cuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.substr(0, kPrefix.size()) == kPrefix) {
    std::int32_t index = -1;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (result.ec == std::errc{} && result.ptr == end && index >= 0) {
      return {DeviceType::cuda, index};
    }
  }
  refuse_argument("device must be cpu, cuda or cuda:<number>, got \"", text, "\"");
}

}  // namespace octet
