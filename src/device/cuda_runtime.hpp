// What the core asks of CUDA. cuda_runtime.cu answers where the build has CUDA, cuda_absent.cpp
// where it has not; either way the library loads on a machine with no GPU and no driver.
#pragma once

#include <cstddef>
#include <string>

namespace octet::cuda {

struct DeviceProperties {
  std::string name;
  int sm_major = 0;
  int sm_minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
};

bool built_with_cuda() noexcept;
int device_count() noexcept;                    // 0 without a driver
std::string driver_status();                    // "driver 13.0", or why there is none
DeviceProperties properties(int device);        // throws Error
int multiprocessors(int device);                // throws Error
void* allocate(std::size_t bytes, int device);  // null: out of memory
void release(void* memory, int device) noexcept;
void clear(void* memory, std::size_t bytes, int device);
// Between host and device or within it, on a stream; waits until the copy is done.
void copy(void* to, const void* from, std::size_t bytes, int device, void* stream = nullptr);
void synchronize(int device);

}  // namespace octet::cuda
