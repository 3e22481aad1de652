// Plain allocation, per device. Null where there is not enough memory.
#pragma once

#include <octet/device.hpp>

#include <cstddef>

namespace octet {

void* allocate_memory(std::size_t bytes, Device device);
void release_memory(void* memory, Device device) noexcept;
void clear_memory(void* memory, std::size_t bytes, Device device);

}  // namespace octet
