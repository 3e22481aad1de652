// Looks for libcublasLt where dlopen would look: among the libraries of this process, on the
// loader's search path, in the loader's cache.
#include "device/cuda_runtime.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace octet::cuda {
namespace {

bool is_readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

bool is_loaded(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

// The shared library this code is in, or the program; both have a search path of their own.
void* open_self() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&cublaslt_is_installed), &self) != 0) {
    void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) return library;
  }
  return dlopen(nullptr, RTLD_LAZY);
}

std::vector<std::string> search_path() {
  std::vector<std::string> folders;
  void* self = open_self();
  if (self == nullptr) return folders;
  Dl_serinfo size{};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<char> memory(size.dls_size);  // from new: aligned for any struct
    auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
    info->dls_size = size.dls_size;
    info->dls_cnt = size.dls_cnt;
    if (dlinfo(self, RTLD_DI_SERINFO, info) == 0) {
      for (unsigned i = 0; i < info->dls_cnt; ++i) {
        folders.emplace_back(info->dls_serpath[i].dls_name);
      }
    }
  }
  dlclose(self);
  return folders;
}

bool is_on_search_path(const std::string& name) {
  for (const std::string& folder : search_path()) {
    if (is_readable(folder + "/" + name)) return true;
  }
  return false;
}

// The cache holds the paths it knows as strings that end with a zero.
bool is_in_loader_cache(const std::string& name) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string cache((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string ending = "/" + name + std::string(1, '\0');
  for (std::size_t at = cache.find(ending); at != std::string::npos;
       at = cache.find(ending, at + 1)) {
    const std::size_t start = cache.rfind('\0', at) + 1;
    if (is_readable(cache.substr(start, at + ending.size() - 1 - start))) return true;
  }
  return false;
}

}  // namespace

bool cublaslt_is_installed() {
  // What was not there may come: a framework loads its own copy later.
  static std::atomic<bool> found{false};
  if (found) return true;
  for (const char* name : kCublasLtNames) {
    if (is_loaded(name) || is_on_search_path(name) || is_in_loader_cache(name)) {
      found = true;
      return true;
    }
  }
  return false;
}

}  // namespace octet::cuda
