#include "core/device_memory.hpp"

#include "core/checks.hpp"
#include "device/cuda_runtime.hpp"

#include <cstdlib>
#include <cstring>

namespace octet {

void* allocate_memory(std::size_t bytes, Device device) {
  if (device.type == DeviceType::cuda) return cuda::allocate(bytes, device.index);
  if (bytes > PTRDIFF_MAX - kAlignment) return nullptr;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

void release_memory(void* memory, Device device) noexcept {
  if (device.type == DeviceType::cuda) {
    cuda::release(memory, device.index);
  } else {
    std::free(memory);
  }
}

void clear_memory(void* memory, std::size_t bytes, Device device) {
  if (device.type == DeviceType::cuda) {
    cuda::clear(memory, bytes, device.index);
  } else {
    std::memset(memory, 0, bytes);
  }
}

}  // namespace octet
