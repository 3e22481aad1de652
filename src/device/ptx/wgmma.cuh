// wgmma m64nNk32, N = 128, 64 or 32, on FP8 operands in shared memory, f32 accumulators in registers.
#pragma once

#include <octet/dtype.hpp>

#include <cstdint>

namespace octet::ptx {

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kLeft` of the committed groups are in flight.
template <int kLeft = 0>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Keeps accumulators in their registers across the asynchronous products.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

#define OCTET_ACC8(d, i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

#define OCTET_WGMMA_N32(types)                                                    \
  asm volatile(                                                                   \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %18, 0;\n"                          \
      "wgmma.mma_async.sync.aligned.m64n32k32.f32." types                         \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, " \
      "%16, %17, keep, 1, 1;\n}"                                                  \
      : OCTET_ACC8(d, 0), OCTET_ACC8(d, 8)                                        \
      : "l"(a), "l"(b), "r"(keep))

#define OCTET_WGMMA_N64(types)                                                            \
  asm volatile(                                                                           \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %34, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n64k32.f32." types                                 \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "%32, %33, keep, 1, 1;\n}"                                                          \
      : OCTET_ACC8(d, 0), OCTET_ACC8(d, 8), OCTET_ACC8(d, 16), OCTET_ACC8(d, 24)          \
      : "l"(a), "l"(b), "r"(keep))

#define OCTET_WGMMA_N128(types)                                                           \
  asm volatile(                                                                           \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %66, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." types                                \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "%64, %65, keep, 1, 1;\n}"                                                          \
      : OCTET_ACC8(d, 0), OCTET_ACC8(d, 8), OCTET_ACC8(d, 16), OCTET_ACC8(d, 24),         \
        OCTET_ACC8(d, 32), OCTET_ACC8(d, 40), OCTET_ACC8(d, 48), OCTET_ACC8(d, 56)        \
      : "l"(a), "l"(b), "r"(keep))

// Both inputs' dtypes, as the instruction has them.
#define OCTET_WGMMA_OF(kA, kB, wgmma)                            \
  if constexpr (kA == Dtype::e4m3 && kB == Dtype::e4m3) {        \
    wgmma("e4m3.e4m3");                                          \
  } else if constexpr (kA == Dtype::e5m2 && kB == Dtype::e4m3) { \
    wgmma("e5m2.e4m3");                                          \
  } else if constexpr (kA == Dtype::e4m3 && kB == Dtype::e5m2) { \
    wgmma("e4m3.e5m2");                                          \
  } else {                                                       \
    wgmma("e5m2.e5m2");                                          \
  }

// d = a b^T + (keep ? d : 0): 64 rows of a, 128, 64 or 32 rows of b, 32 of the contraction.
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[64], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N128)
}
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[32], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N64)
}

template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[16], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N32)
}

#undef OCTET_WGMMA_OF
#undef OCTET_WGMMA_N128
#undef OCTET_WGMMA_N64
#undef OCTET_WGMMA_N32
#undef OCTET_ACC8

}  // namespace octet::ptx
