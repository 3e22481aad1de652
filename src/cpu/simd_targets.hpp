// Which instruction sets Highway compiles a file for: AVX2 with FMA, and AVX-512. Include it before
// hwy/foreach_target.h, and put the kernels between
//
//   #if OCTET_SIMD_TARGET
//   HWY_BEFORE_NAMESPACE();
//   namespace octet::HWY_NAMESPACE {
//   ...
//   }  // namespace octet::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//   #endif
//
// so that N_AVX2 and N_AVX3 have them. The choice between the two is ours (dispatch/machine.hpp):
// Highway's own chooser would need its shared library at run time. Older CPUs have no fused
// multiply-add, which the frozen arithmetic needs; there the reference runs.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#define OCTET_SIMD_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
