// Runs of f32, f16 or bf16 as two vectors of f32, the even and the odd elements: a bf16 run splits
// like that without moving a lane. Included once per instruction set.
#if defined(OCTET_OPS_ROPE_SPLIT_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_ROPE_SPLIT_LANES_INL
#undef OCTET_OPS_ROPE_SPLIT_LANES_INL
#else
#define OCTET_OPS_ROPE_SPLIT_LANES_INL
#endif

#include "cpu/fp8_encode-inl.hpp"

#include <cstring>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

inline constexpr int kVector = static_cast<int>(HWY_LANES(float));
inline constexpr int kRun = 2 * kVector;

struct Split {
  hn::Vec<F32> even;
  hn::Vec<F32> odd;
};

HWY_INLINE Split split(hn::Vec<F32> first, hn::Vec<F32> second) {
  return {hn::ConcatEven(F32(), second, first), hn::ConcatOdd(F32(), second, first)};
}

struct InOrder {
  hn::Vec<F32> first;
  hn::Vec<F32> second;
};
HWY_INLINE InOrder in_order(const Split& run) {
  alignas(64) std::int32_t alternating[kVector];
  for (int i = 0; i < kVector; ++i) alternating[i] = i / 2 + i % 2 * (kVector / 2);
  const auto indices = hn::SetTableIndices(F32(), alternating);
  return {hn::TableLookupLanes(hn::ConcatLowerLower(F32(), run.odd, run.even), indices),
          hn::TableLookupLanes(hn::ConcatUpperUpper(F32(), run.odd, run.even), indices)};
}

template <class D>
HWY_INLINE void store_vector(hn::Vec<D> value, D d, hn::TFromD<D>* to, bool stream) {
  if (stream) {
    hn::Stream(value, d, to);
  } else {
    hn::StoreU(value, d, to);
  }
}

struct SplitBf16 {
  using Element = std::uint16_t;

  static HWY_INLINE Split load(const Element* from) {
    const auto bits = hn::BitCast(U32(), hn::LoadU(U16(), from));
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(bits)),
            hn::BitCast(F32(), hn::And(bits, hn::Set(U32(), 0xFFFF0000u)))};
  }
  static HWY_INLINE void store(const Split& run, Element* to, bool stream) {
    store_vector(high_halves(rounded(run.even), rounded(run.odd)), U16(), to, stream);
  }

 private:
  // To nearest even, in the upper half of each lane. NaN needs no special case: arithmetic made it
  // quiet, and after without_payload rounding cannot carry out of it.
  static HWY_INLINE hn::Vec<U32> rounded(hn::Vec<F32> value) {
    const U32 d;
    const auto bits = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
  }
};

// For f32 that are combined with bf16: clears the lower half of a NaN.
HWY_INLINE hn::Vec<F32> without_payload(hn::Vec<F32> value) {
  return hn::IfThenElse(hn::IsNaN(value), hn::BitCast(F32(), hn::Set(U32(), 0x7FC00000u)), value);
}
HWY_INLINE Split without_payload(const Split& run) {
  return {without_payload(run.even), without_payload(run.odd)};
}

struct SplitF16 {
  using Element = std::uint16_t;

  static HWY_INLINE Split load(const Element* from) {
    return split(widen(from), widen(from + kVector));
  }
  static HWY_INLINE void store(const Split& run, Element* to, bool stream) {
    const InOrder vectors = in_order(run);
    store_vector(hn::Combine(U16(), narrow(vectors.second), narrow(vectors.first)), U16(), to,
                 stream);
  }

 private:
  using Half = hn::Rebind<hwy::float16_t, F32>;
  using HalfBits = hn::Rebind<Element, F32>;

  static HWY_INLINE hn::Vec<F32> widen(const Element* from) {
    return hn::PromoteTo(F32(), hn::BitCast(Half(), hn::LoadU(HalfBits(), from)));
  }
  static HWY_INLINE hn::Vec<HalfBits> narrow(hn::Vec<F32> value) {
    return hn::BitCast(HalfBits(), hn::DemoteTo(Half(), value));
  }
};

struct SplitF32 {
  using Element = float;

  static HWY_INLINE Split load(const Element* from) {
    return split(hn::LoadU(F32(), from), hn::LoadU(F32(), from + kVector));
  }
  static HWY_INLINE void store(const Split& run, Element* to, bool stream) {
    const InOrder vectors = in_order(run);
    store_vector(vectors.first, F32(), to, stream);
    store_vector(vectors.second, F32(), to + kVector, stream);
  }
};

// The first `count` elements of a run, zero-filled.
template <class Lanes>
HWY_INLINE Split load_run(const typename Lanes::Element* from, std::int64_t count) {
  if (count == kRun) return Lanes::load(from);
  alignas(64) typename Lanes::Element run[kRun] = {};
  std::memcpy(run, from, static_cast<std::size_t>(count) * sizeof(run[0]));
  return Lanes::load(run);
}

template <class Lanes>
HWY_INLINE void store_run(const Split& values, std::int64_t count, bool stream,
                          typename Lanes::Element* to) {
  if (count == kRun) return Lanes::store(values, to, stream);
  alignas(64) typename Lanes::Element run[kRun];
  Lanes::store(values, run, false);
  std::memcpy(to, run, static_cast<std::size_t>(count) * sizeof(run[0]));
}

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif
#endif
