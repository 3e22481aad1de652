#include "device/cuda_runtime.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <string>

namespace octet::cuda {

void* cudnn_library() {
  static std::mutex mutex;
  static void* library = nullptr;  // kept for the life of the process
  const std::lock_guard lock(mutex);
  if (library != nullptr) return library;
  // What was not there may come: a framework loads its own copy later, which is found by its name.
  const char* folder = std::getenv("OCTET_CUDNN_DIR");
  const bool is_named = folder != nullptr && *folder != '\0';
  const std::string path = is_named ? std::string(folder) + "/" + kCudnnName : kCudnnName;
  library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  return library;
}

int cudnn_version() {
  void* library = cudnn_library();
  if (library == nullptr) return 0;
  const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(library, "cudnnGetVersion"));
  return version == nullptr ? 0 : static_cast<int>(version());
}

}  // namespace octet::cuda
