// Transposes bytes in registers, 16x16 per 128-bit block: four rounds of interleaving, each of
// which brings rows of the result twice as close together. Included once per instruction set.
#if defined(OCTET_CPU_BYTE_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_BYTE_TRANSPOSE_INL
#undef OCTET_CPU_BYTE_TRANSPOSE_INL
#else
#define OCTET_CPU_BYTE_TRANSPOSE_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Interleaves rows i and i + 8 into rows 2i and 2i + 1: the perfect shuffle of 16 rows. Four of
// them bring byte c of row r to byte r of row c.
template <class Vector>
HWY_INLINE void interleave_rows(const Vector (&from)[16], Vector (&to)[16]) {
  const hn::ScalableTag<std::uint8_t> d;
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = hn::InterleaveLower(d, from[i], from[i + 8]);
    to[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + 8]);
  }
}

// to[c * to_pitch + r] = from[r * from_pitch + c] for 16 rows and as many columns as a vector has
// bytes.
HWY_INLINE void transpose_rows16(const std::uint8_t* from, std::size_t from_pitch, std::uint8_t* to,
                                 std::size_t to_pitch) {
  const hn::ScalableTag<std::uint8_t> d;
  hn::Vec<decltype(d)> a[16];
  hn::Vec<decltype(d)> b[16];
  for (std::size_t r = 0; r < 16; ++r) a[r] = hn::LoadU(d, from + r * from_pitch);
  interleave_rows(a, b);
  interleave_rows(b, a);
  interleave_rows(a, b);
  interleave_rows(b, a);
  for (std::size_t c = 0; c < 16; ++c) {
    std::uint8_t* block = to + c * to_pitch;
#if HWY_TARGET == HWY_AVX3
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block), _mm512_castsi512_si128(a[c].raw));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block + 16 * to_pitch),
                     _mm512_extracti32x4_epi32(a[c].raw, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block + 32 * to_pitch),
                     _mm512_extracti32x4_epi32(a[c].raw, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block + 48 * to_pitch),
                     _mm512_extracti32x4_epi32(a[c].raw, 3));
#else
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block), _mm256_castsi256_si128(a[c].raw));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block + 16 * to_pitch),
                     _mm256_extracti128_si256(a[c].raw, 1));
#endif
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
