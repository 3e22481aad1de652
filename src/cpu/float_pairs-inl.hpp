// Two vectors of f32 from as many elements of f32, f16 or bf16, and back, rounded to nearest even,
// for elementwise work: each format has its own order of lanes. Included once per instruction set.
#if defined(OCTET_CPU_FLOAT_PAIRS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_FLOAT_PAIRS_INL
#undef OCTET_CPU_FLOAT_PAIRS_INL
#else
#define OCTET_CPU_FLOAT_PAIRS_INL
#endif

#include "cpu/encode_simd-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

struct FloatPair {
  hn::Vec<F32> a;
  hn::Vec<F32> b;
};

// Stores past the caches if `stream`; `to` is then aligned to a vector.
template <class D>
HWY_INLINE void store_lanes(hn::Vec<D> lanes, D d, hn::TFromD<D>* to, bool stream) {
  if (stream) {
    hn::Stream(lanes, d, to);
  } else {
    hn::StoreU(lanes, d, to);
  }
}

struct F32Pairs {
  using Element = float;
  static HWY_INLINE FloatPair load(const float* from) {
    return {hn::LoadU(F32(), from), hn::LoadU(F32(), from + hn::Lanes(F32()))};
  }
  static HWY_INLINE void store(const FloatPair& pair, float* to, bool stream) {
    store_lanes(pair.a, F32(), to, stream);
    store_lanes(pair.b, F32(), to + hn::Lanes(F32()), stream);
  }
};

struct F16Pairs {
  using Element = std::uint16_t;
  static HWY_INLINE FloatPair load(const std::uint16_t* from) {
    FloatPair pair;
    DecodeF16::load(from, pair.a, pair.b);
    return pair;
  }
  static HWY_INLINE void store(const FloatPair& pair, std::uint16_t* to, bool stream) {
    const hn::Rebind<hwy::float16_t, F32> df16;
    const hn::Rebind<std::uint16_t, F32> d16;
    store_lanes(hn::BitCast(d16, hn::DemoteTo(df16, pair.a)), d16, to, stream);
    store_lanes(hn::BitCast(d16, hn::DemoteTo(df16, pair.b)), d16, to + hn::Lanes(F32()), stream);
  }
};

// Elements at even places in one vector, at odd places in the other: no lane has to move. There
// is no special case for NaN: one that comes from bf16 or from arithmetic has no bits in its lower
// half, and rounding keeps it. A caller with other NaNs from f32 must clear these bits first.
struct Bf16Pairs {
  using Element = std::uint16_t;
  using U32 = hn::RebindToUnsigned<F32>;

  static HWY_INLINE FloatPair load(const std::uint16_t* from) {
    const auto lanes = hn::BitCast(U32(), hn::LoadU(U16(), from));
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(lanes)),
            hn::BitCast(F32(), hn::And(lanes, hn::Set(U32(), 0xFFFF0000u)))};
  }
  static HWY_INLINE void store(const FloatPair& pair, std::uint16_t* to, bool stream) {
    const auto even = hn::ShiftRight<16>(rounded(pair.a));
    const auto odd = rounded(pair.b);
    store_lanes(hn::OddEven(hn::BitCast(U16(), odd), hn::BitCast(U16(), even)), U16(), to, stream);
  }

 private:
  // The upper half is the bf16.
  static HWY_INLINE hn::Vec<U32> rounded(hn::Vec<F32> value) {
    const auto bits = hn::BitCast(U32(), value);
    const auto just_below_half = hn::Set(U32(), 0x7FFF);
    if constexpr (HWY_TARGET == HWY_AVX3) {  // masks are cheap: one instruction less
      const auto odd = hn::TestBit(bits, hn::Set(U32(), 0x10000));
      return hn::Add(bits, hn::IfThenElse(odd, hn::Set(U32(), 0x8000), just_below_half));
    }
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1));
    return hn::Add(bits, hn::Add(odd, just_below_half));
  }
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
