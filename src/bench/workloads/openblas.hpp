// OpenBLAS, loaded on first use: a yardstick, not a dependency.
#pragma once

#include <cstdint>
#include <string>

namespace octet::bench {

class OpenBlas {
 public:
  // Throws Error(unsupported) that names the package to install.
  static const OpenBlas& load();

  void set_threads(int threads) const { set_threads_(threads); }
  // d[m, n] = a[m, k] b[n, k]^T, or d += the same; row-major, dense.
  void sgemm_nt(int m, int n, int k, const float* a, const float* b, float* d,
                bool accumulate) const;
  const std::string& configuration() const { return configuration_; }

 private:
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c,
                         int ldc);
  OpenBlas();

  Sgemm sgemm_ = nullptr;
  void (*set_threads_)(int) = nullptr;
  std::string configuration_;  // "OpenBLAS 0.3.21 ... SkylakeX"
};

}  // namespace octet::bench
