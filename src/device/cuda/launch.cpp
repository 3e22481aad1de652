#include "device/cuda/launch.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace octet::cuda {
namespace {

struct Allowed {
  const void* kernel = nullptr;
  int device = 0;
  std::size_t bytes = 0;
};

// The limit of a kernel on a device only ever grows, so launches of other threads keep theirs, and a
// thread remembers what it has seen without a lock.
void allow_shared_memory(const Launch& launch) {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  thread_local Allowed seen[16];
  Allowed& known = seen[reinterpret_cast<std::uintptr_t>(launch.kernel) / 16 % 16];
  if (known.kernel == launch.kernel && known.device == device &&
      launch.shared_bytes <= known.bytes) {
    return;
  }
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::size_t> allowed;
  const std::lock_guard lock(mutex);
  std::size_t& limit = allowed[{launch.kernel, device}];
  if (launch.shared_bytes > limit) {
    check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared_bytes)),
          "cudaFuncSetAttribute");
    limit = launch.shared_bytes;
  }
  known = {launch.kernel, device, limit};
}

}  // namespace

void launch(const Launch& launch, void** arguments) {
  if (launch.shared_bytes > 0) allow_shared_memory(launch);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.blocks);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelExC(&config, launch.kernel, arguments), launch.name);
}

}  // namespace octet::cuda
