#include "device/launch.hpp"
#include "device/scope.hpp"

#include <mutex>
#include <set>
#include <utility>

namespace octet::cuda {
namespace {

// Once per kernel and device: the limit of what a kernel may ask for stays as it was set.
void allow_shared_memory(const Launch& launch) {
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> allowed;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  if (allowed.count({launch.kernel, device}) != 0) return;
  check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(launch.shared_bytes)),
        "cudaFuncSetAttribute");
  allowed.insert({launch.kernel, device});
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
