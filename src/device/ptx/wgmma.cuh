// wgmma m64nNk32, N = 32, 64, 128, 160 or 192, on FP8 operands in shared memory, f32 accumulators in registers.
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
#define OCTET_ACC16(d, i) OCTET_ACC8(d, i), OCTET_ACC8(d, i + 8)

// The numbers of 16 accumulators in the text of an instruction.
#define OCTET_FROM0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define OCTET_FROM16 \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OCTET_FROM32 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define OCTET_FROM48 \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define OCTET_FROM64 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define OCTET_FROM80 \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// kN columns: kN / 2 accumulators, whose numbers are `list`; then a, b and keep.
#define OCTET_WGMMA(n, types, list, a_number, b_number, keep_number, ...)                         \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep_number                            \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." types " {" list "}, %" #a_number \
               ", %" #b_number ", keep, 1, 1;\n}"                                                 \
               : __VA_ARGS__                                                                      \
               : "l"(a), "l"(b), "r"(keep))
#define OCTET_WGMMA_N32(types) OCTET_WGMMA(32, types, OCTET_FROM0, 16, 17, 18, OCTET_ACC16(d, 0))
#define OCTET_WGMMA_N64(types)                                                         \
  OCTET_WGMMA(64, types, OCTET_FROM0 ", " OCTET_FROM16, 32, 33, 34, OCTET_ACC16(d, 0), \
              OCTET_ACC16(d, 16))
#define OCTET_WGMMA_N128(types)                                                                  \
  OCTET_WGMMA(128, types, OCTET_FROM0 ", " OCTET_FROM16 ", " OCTET_FROM32 ", " OCTET_FROM48, 64, \
              65, 66, OCTET_ACC16(d, 0), OCTET_ACC16(d, 16), OCTET_ACC16(d, 32),                 \
              OCTET_ACC16(d, 48))
#define OCTET_WGMMA_N160(types)                                                                    \
  OCTET_WGMMA(160, types,                                                                          \
              OCTET_FROM0 ", " OCTET_FROM16 ", " OCTET_FROM32 ", " OCTET_FROM48 ", " OCTET_FROM64, \
              80, 81, 82, OCTET_ACC16(d, 0), OCTET_ACC16(d, 16), OCTET_ACC16(d, 32),               \
              OCTET_ACC16(d, 48), OCTET_ACC16(d, 64))
#define OCTET_WGMMA_N192(types)                                                                   \
  OCTET_WGMMA(192, types,                                                                         \
              OCTET_FROM0 ", " OCTET_FROM16 ", " OCTET_FROM32 ", " OCTET_FROM48 ", " OCTET_FROM64 \
                          ", " OCTET_FROM80,                                                      \
              96, 97, 98, OCTET_ACC16(d, 0), OCTET_ACC16(d, 16), OCTET_ACC16(d, 32),              \
              OCTET_ACC16(d, 48), OCTET_ACC16(d, 64), OCTET_ACC16(d, 80))

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

// d = a b^T + (keep ? d : 0): 64 rows of a, so many rows of b as accumulators times two, 32 of the contraction.
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[16], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N32)
}
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[32], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N64)
}
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[64], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N128)
}
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[80], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N160)
}
template <Dtype kA, Dtype kB>
__device__ __forceinline__ void wgmma(float (&d)[96], std::uint64_t a, std::uint64_t b, int keep) {
  OCTET_WGMMA_OF(kA, kB, OCTET_WGMMA_N192)
}

#undef OCTET_WGMMA_OF
#undef OCTET_WGMMA_N192
#undef OCTET_WGMMA_N160
#undef OCTET_WGMMA_N128
#undef OCTET_WGMMA_N64
#undef OCTET_WGMMA_N32
#undef OCTET_WGMMA
#undef OCTET_FROM0
#undef OCTET_FROM16
#undef OCTET_FROM32
#undef OCTET_FROM48
#undef OCTET_FROM64
#undef OCTET_FROM80
#undef OCTET_ACC16
#undef OCTET_ACC8

}  // namespace octet::ptx
