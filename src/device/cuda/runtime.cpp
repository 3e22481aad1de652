// Device memory and properties through the static CUDA runtime.
#include "device/cuda_runtime.hpp"
#include "device/cuda/launch.hpp"

namespace octet::cuda {
bool built_with_cuda() noexcept { return true; }

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::string driver_status() {
  int version = 0;
  const cudaError_t status = cudaDriverGetVersion(&version);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  if (version == 0) return "no CUDA driver";
  return text("driver ", version / 1000, ".", version % 1000 / 10);
}

DeviceProperties properties(int device) {
  cudaDeviceProp given{};
  check(cudaGetDeviceProperties(&given, device), "cudaGetDeviceProperties");
  DeviceProperties result;
  result.name = given.name;
  result.sm_major = given.major;
  result.sm_minor = given.minor;
  result.multiprocessors = given.multiProcessorCount;
  result.memory_bytes = given.totalGlobalMem;
  result.l2_bytes = static_cast<std::size_t>(given.l2CacheSize);
  return result;
}

int multiprocessors(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

void* allocate(std::size_t bytes, int device) {
  const DeviceScope scope(device);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMalloc");
  return memory;
}

void release(void* memory, int device) noexcept {
  int previous = 0;
  if (cudaGetDevice(&previous) != cudaSuccess) return;
  (void)cudaSetDevice(device);
  (void)cudaFree(memory);
  (void)cudaSetDevice(previous);
}

void clear(void* memory, std::size_t bytes, int device) {
  const DeviceScope scope(device);
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaMemset");  // streams of the caller do not wait for it
}

void copy(void* to, const void* from, std::size_t bytes, int device, void* stream) {
  const DeviceScope scope(device);
  const auto queue = static_cast<cudaStream_t>(stream);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
}

void synchronize(int device) {
  const DeviceScope scope(device);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace octet::cuda
