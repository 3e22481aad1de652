// wgmma m64nNk16 on bf16 or f16 operands, N a multiple of 16 from 64 to 192, f32 accumulators in registers.
//
// b lies in shared memory, a there or in registers. 16-bit operands may be K-major (the contraction is
// contiguous, as in k for q k^T) or MN-major (it is not, as in v for p v): mma/layout.hpp has the
// descriptors. Accumulators 8i to 8i + 7, packed two by two, are the fragment of a for contraction 16i.
#pragma once

#include "device/ptx/wgmma.cuh"

namespace octet::ptx {

enum class Major { k = 0, mn = 1 };

// The fragment of a, 64 x 16: four words of two elements per thread.
struct Fragment {
  std::uint32_t words[4];
};

// The accumulators as operands, by eights.
#define OCTET_R4                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OCTET_R5 OCTET_R4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define OCTET_R6 OCTET_R5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define OCTET_R7 OCTET_R6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define OCTET_R8 OCTET_R7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define OCTET_R9 OCTET_R8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define OCTET_R10 OCTET_R9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define OCTET_R11 OCTET_R10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define OCTET_R12 OCTET_R11 ", %88, %89, %90, %91, %92, %93, %94, %95"

#define OCTET_D8(i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define OCTET_D32 OCTET_D8(0), OCTET_D8(8), OCTET_D8(16), OCTET_D8(24)
#define OCTET_D40 OCTET_D32, OCTET_D8(32)
#define OCTET_D48 OCTET_D40, OCTET_D8(40)
#define OCTET_D56 OCTET_D48, OCTET_D8(48)
#define OCTET_D64 OCTET_D56, OCTET_D8(56)
#define OCTET_D72 OCTET_D64, OCTET_D8(64)
#define OCTET_D80 OCTET_D72, OCTET_D8(72)
#define OCTET_D88 OCTET_D80, OCTET_D8(80)
#define OCTET_D96 OCTET_D88, OCTET_D8(88)

// The numbers of the operands behind the accumulators.
#define OCTET_WGMMA16_SS(n, type, registers, accumulators, a0, b0, keep0, major_a, major_b, x, y) \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep0                                  \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type              \
               " {" registers "}, %" #a0 ", %" #b0 ", keep, 1, 1, %" #major_a ", %" #major_b      \
               ";\n}"                                                                             \
               : accumulators                                                                     \
               : "l"(a), "l"(b), "r"(keep), "n"(static_cast<int>(kA)), "n"(static_cast<int>(kB)))
#define OCTET_WGMMA16_RS(n, type, registers, accumulators, a0, a1, a2, a3, b0, keep0, major_b) \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep0                               \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type           \
               " {" registers "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b0             \
               ", keep, 1, 1, %" #major_b ";\n}"                                               \
               : accumulators                                                                  \
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "l"(b),   \
                 "r"(keep), "n"(static_cast<int>(kB)))

// The N that fits the accumulators, d.
#define OCTET_WGMMA16_OF(form, type)                                      \
  if constexpr (kCount == 32) {                                           \
    form(64, type, OCTET_R4, OCTET_D32, 32, 33, 34, 35, 36, 37, 38);      \
  } else if constexpr (kCount == 40) {                                    \
    form(80, type, OCTET_R5, OCTET_D40, 40, 41, 42, 43, 44, 45, 46);      \
  } else if constexpr (kCount == 48) {                                    \
    form(96, type, OCTET_R6, OCTET_D48, 48, 49, 50, 51, 52, 53, 54);      \
  } else if constexpr (kCount == 56) {                                    \
    form(112, type, OCTET_R7, OCTET_D56, 56, 57, 58, 59, 60, 61, 62);     \
  } else if constexpr (kCount == 64) {                                    \
    form(128, type, OCTET_R8, OCTET_D64, 64, 65, 66, 67, 68, 69, 70);     \
  } else if constexpr (kCount == 72) {                                    \
    form(144, type, OCTET_R9, OCTET_D72, 72, 73, 74, 75, 76, 77, 78);     \
  } else if constexpr (kCount == 80) {                                    \
    form(160, type, OCTET_R10, OCTET_D80, 80, 81, 82, 83, 84, 85, 86);    \
  } else if constexpr (kCount == 88) {                                    \
    form(176, type, OCTET_R11, OCTET_D88, 88, 89, 90, 91, 92, 93, 94);    \
  } else if constexpr (kCount == 96) {                                    \
    form(192, type, OCTET_R12, OCTET_D96, 96, 97, 98, 99, 100, 101, 102); \
  }

// d = a b + (keep ? d : 0): 64 rows of a, 16 of the contraction, 2 kCount columns of b.
template <Dtype kDtype, Major kA, Major kB, int kCount>
__device__ __forceinline__ void wgmma16(float (&d)[kCount], std::uint64_t a, std::uint64_t b,
                                        int keep) {
  static_assert(kCount % 8 == 0 && kCount >= 32 && kCount <= 96, "N is 64 to 192 in steps of 16");
  if constexpr (kDtype == Dtype::bf16) {
    OCTET_WGMMA16_OF(OCTET_WGMMA16_SS, "bf16")
  } else {
    OCTET_WGMMA16_OF(OCTET_WGMMA16_SS, "f16")
  }
}
template <Dtype kDtype, Major kB, int kCount>
__device__ __forceinline__ void wgmma16(float (&d)[kCount], const Fragment& a, std::uint64_t b,
                                        int keep) {
  static_assert(kCount % 8 == 0 && kCount >= 32 && kCount <= 96, "N is 64 to 192 in steps of 16");
  if constexpr (kDtype == Dtype::bf16) {
    OCTET_WGMMA16_OF(OCTET_WGMMA16_RS, "bf16")
  } else {
    OCTET_WGMMA16_OF(OCTET_WGMMA16_RS, "f16")
  }
}

#undef OCTET_WGMMA16_OF
#undef OCTET_WGMMA16_RS
#undef OCTET_WGMMA16_SS
#undef OCTET_D96
#undef OCTET_D88
#undef OCTET_D80
#undef OCTET_D72
#undef OCTET_D64
#undef OCTET_D56
#undef OCTET_D48
#undef OCTET_D40
#undef OCTET_D32
#undef OCTET_D8
#undef OCTET_R12
#undef OCTET_R11
#undef OCTET_R10
#undef OCTET_R9
#undef OCTET_R8
#undef OCTET_R7
#undef OCTET_R6
#undef OCTET_R5
#undef OCTET_R4

}  // namespace octet::ptx
