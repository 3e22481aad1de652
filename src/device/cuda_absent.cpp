// A build without CUDA: there are no devices, and that is no error until one is asked for.
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

namespace octet::cuda {

bool built_with_cuda() noexcept { return false; }
int device_count() noexcept { return 0; }
std::string driver_status() { return "this build of octet has no CUDA"; }

DeviceProperties properties(int device) {
  fail(ErrorCode::no_device, "device cuda:", device, ": ", driver_status());
}

void* allocate(std::size_t, int) { return nullptr; }
void release(void*, int) noexcept {}
void clear(void*, std::size_t, int) {}

}  // namespace octet::cuda
