// A build without CUDA has no devices: an error only where one is asked for.
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

namespace octet::cuda {

bool built_with_cuda() noexcept { return false; }
bool cublaslt_is_installed() { return false; }
int device_count() noexcept { return 0; }
std::string driver_status() { return "this build of octet has no CUDA"; }

DeviceProperties properties(int device) {
  fail(ErrorCode::no_device, "device cuda:", device, ": ", driver_status());
}

int multiprocessors(int device) { return properties(device).multiprocessors; }

void* allocate(std::size_t, int) { return nullptr; }
void release(void*, int) noexcept {}
void clear(void*, std::size_t, int) {}
void copy(void*, const void*, std::size_t, int device, void*) { (void)properties(device); }
void synchronize(int device) { (void)properties(device); }

}  // namespace octet::cuda
