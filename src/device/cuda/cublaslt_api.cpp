#include "device/cuda/cublaslt_api.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/relaxed_capture.hpp"
#include "device/cuda_runtime.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace octet::cuda {
namespace {

void* open_library() {
  std::string refusals;
  for (const char* name : kCublasLtNames) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char* refusal = dlerror();
    refusals += text("\n  ", refusal != nullptr ? refusal : name);
  }
  fail(ErrorCode::unsupported, "cublaslt: libcublasLt could not be loaded:", refusals);
}

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorCode::unsupported, "cublaslt: libcublasLt has no ", name,
         "; 12.9 or newer is needed");
  }
}

CublasLt load() {
  void* library = open_library();  // for the life of the process
  CublasLt lt{};
  resolve(library, "cublasLtCreate", lt.create);
  resolve(library, "cublasLtGetStatusName", lt.status_name);
  resolve(library, "cublasLtGetStatusString", lt.status_text);
  resolve(library, "cublasLtMatrixLayoutCreate", lt.layout_create);
  resolve(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  resolve(library, "cublasLtMatmulDescCreate", lt.operation_create);
  resolve(library, "cublasLtMatmulDescDestroy", lt.operation_destroy);
  resolve(library, "cublasLtMatmulDescSetAttribute", lt.operation_set);
  resolve(library, "cublasLtMatmulPreferenceCreate", lt.preference_create);
  resolve(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  resolve(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  resolve(library, "cublasLtMatmulAlgoGetHeuristic", lt.find_algorithm);
  resolve(library, "cublasLtMatmul", lt.matmul);
  return lt;
}

ErrorCode code_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH: return ErrorCode::unsupported;
    case CUBLAS_STATUS_ALLOC_FAILED: return ErrorCode::out_of_memory;
    default: return ErrorCode::device_error;
  }
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt lt = load();
  return lt;
}

cublasLtHandle_t cublaslt_handle(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) {
    const DeviceScope scope(device);
    const RelaxedCapture relaxed;
    check(cublaslt().create(&handle), "cublasLtCreate");
  }
  return handle;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(code_of(status), "cublaslt: ", what, ": ", cublaslt().status_name(status), " (",
       cublaslt().status_text(status), ")");
}

}  // namespace octet::cuda
