#include "bench/workloads/openblas.hpp"

#include "core/message.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace octet::bench {
namespace {

// The numbers of CBLAS.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

}  // namespace

const OpenBlas& OpenBlas::load() {
  static const OpenBlas library;
  return library;
}

OpenBlas::OpenBlas() {
  // Its threads would spin for 2^26 cycles after every call, on the cores where ours take their
  // turn. 2^4 sends them to sleep at once. Read when the library is loaded; the user's own wins.
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::unsupported, "baseline openblas: the library cannot be loaded (", dlerror(),
         "); apt-get install libopenblas0-pthread");
  }
  sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  set_threads_ = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (sgemm_ == nullptr || set_threads_ == nullptr) {
    fail(ErrorCode::unsupported,
         "baseline openblas: libopenblas.so.0 lacks cblas_sgemm or openblas_set_num_threads; "
         "apt-get install libopenblas0-pthread");
  }
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  configuration_ = config != nullptr ? config() : "OpenBLAS";
}

void OpenBlas::sgemm_nt(int m, int n, int k, const float* a, const float* b, float* d,
                        bool accumulate) const {
  sgemm_(kRowMajor, kNoTranspose, kTranspose, m, n, k, 1.0f, a, k, b, k, accumulate ? 1.0f : 0.0f,
         d, n);
}

}  // namespace octet::bench
