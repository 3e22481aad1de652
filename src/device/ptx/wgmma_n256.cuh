// wgmma m64n256, FP8 and 16-bit, on operands in shared memory. The 128 accumulators of a thread are two arrays of 64,
// of the left and of the right 128 columns, as two instructions of m64n128 have them: a is read once, not twice.
#pragma once

#include "device/ptx/wgmma16.cuh"

namespace octet::ptx {

#define OCTET_ACC8(d, i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define OCTET_ACC64(d)                                                                         \
  OCTET_ACC8(d, 0), OCTET_ACC8(d, 8), OCTET_ACC8(d, 16), OCTET_ACC8(d, 24), OCTET_ACC8(d, 32), \
      OCTET_ACC8(d, 40), OCTET_ACC8(d, 48), OCTET_ACC8(d, 56)
#define OCTET_ACCUMULATORS                                                                     \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                    \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "           \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "           \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "     \
  "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
  "%126, %127}"
#define OCTET_WGMMA_N256(types)                                                   \
  asm volatile(                                                                   \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %130, 0;\n"                         \
      "wgmma.mma_async.sync.aligned.m64n256k32.f32." types " " OCTET_ACCUMULATORS \
      ", %128, %129, keep, 1, 1;\n}"                                              \
      : OCTET_ACC64(left), OCTET_ACC64(right)                                     \
      : "l"(a), "l"(b), "r"(keep))
#define OCTET_WGMMA16_N256(type)                                                          \
  asm volatile(                                                                           \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %130, 0;\n"                                 \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " " OCTET_ACCUMULATORS \
      ", %128, %129, keep, 1, 1, %131, %132;\n}"                                          \
      : OCTET_ACC64(left), OCTET_ACC64(right)                                             \
      : "l"(a), "l"(b), "r"(keep), "n"(static_cast<int>(kA)), "n"(static_cast<int>(kB)))

// d = a b^T + (keep ? d : 0), 32 of the contraction.
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&left)[64], float (&right)[64], std::uint64_t a,
                                      std::uint64_t b, int keep) {
  if constexpr (kA == Dtype::e4m3 && kB == Dtype::e4m3) {
    OCTET_WGMMA_N256("e4m3.e4m3");
  } else if constexpr (kA == Dtype::e5m2 && kB == Dtype::e4m3) {
    OCTET_WGMMA_N256("e5m2.e4m3");
  } else if constexpr (kA == Dtype::e4m3 && kB == Dtype::e5m2) {
    OCTET_WGMMA_N256("e4m3.e5m2");
  } else {
    OCTET_WGMMA_N256("e5m2.e5m2");
  }
}

// 16 of the contraction.
template <Dtype kDtype, Major kA, Major kB>
__device__ __forceinline__ void wgmma16(float (&left)[64], float (&right)[64], std::uint64_t a,
                                        std::uint64_t b, int keep) {
  if constexpr (kDtype == Dtype::bf16) {
    OCTET_WGMMA16_N256("bf16");
  } else {
    OCTET_WGMMA16_N256("f16");
  }
}

#undef OCTET_WGMMA16_N256
#undef OCTET_WGMMA_N256
#undef OCTET_ACCUMULATORS
#undef OCTET_ACC64
#undef OCTET_ACC8

}  // namespace octet::ptx
