#include "check/reference/product_kernel.hpp"

#include "check/reference/clones.hpp"

#include <cmath>

namespace octet {
namespace {

struct PanelProducts {
  void (*values)(const double*, const double*, int, double*);
  void (*magnitudes)(const float*, const float*, int, float*);
};

namespace plain {
constexpr int kVectorBytes = 16;
constexpr int kRowStep = 1;
#include "check/reference/product_panels.inl"
}  // namespace plain

#if defined(__x86_64__) && !defined(__clang__)
#define OCTET_WIDER_PANELS
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
constexpr int kVectorBytes = 32;
constexpr int kRowStep = 2;
#include "check/reference/product_panels.inl"
}  // namespace avx2
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
namespace avx512 {
constexpr int kVectorBytes = 64;
constexpr int kRowStep = 8;
#include "check/reference/product_panels.inl"
}  // namespace avx512
#pragma GCC pop_options
#endif

const PanelProducts& products() {
#ifdef OCTET_WIDER_PANELS
  static const PanelProducts& chosen = __builtin_cpu_supports("avx512f") ? avx512::kProducts
                                       : __builtin_cpu_supports("avx2")  ? avx2::kProducts
                                                                         : plain::kProducts;
  return chosen;
#else
  return plain::kProducts;
#endif
}

}  // namespace

void multiply_panels(const double* a, const double* b, int depth, double* value) {
  products().values(a, b, depth, value);
}
void multiply_panels(const float* a, const float* b, int depth, float* value) {
  products().magnitudes(a, b, depth, value);
}
OCTET_CPU_CLONES void magnitudes(const double* from, long count, float* to) {
  for (long i = 0; i < count; ++i) to[i] = static_cast<float>(std::fabs(from[i]));
}

}  // namespace octet
