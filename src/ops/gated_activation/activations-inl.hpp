// The activations over vectors of f32, and their slopes. Far from 0 they have the right limits: no
// product of 0 and infinity appears for a finite gate. Included once per instruction set.
#if defined(OCTET_OPS_GATED_ACTIVATION_ACTIVATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_GATED_ACTIVATION_ACTIVATIONS_INL
#undef OCTET_OPS_GATED_ACTIVATION_ACTIVATIONS_INL
#else
#define OCTET_OPS_GATED_ACTIVATION_ACTIVATIONS_INL
#endif

#include "cpu/exp_of_minus-inl.hpp"
#include "cpu/float_pairs-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

using Lanes = hn::Vec<F32>;
HWY_INLINE Lanes all(float value) { return hn::Set(F32(), value); }

struct ValueAndSlope {
  Lanes value;
  Lanes slope;
};

struct Silu {
  static HWY_INLINE Lanes value(Lanes g) { return hn::Div(g, hn::Add(all(1), exp_of_minus(g))); }
  static HWY_INLINE ValueAndSlope both(Lanes g) {
    const auto s = hn::Div(all(1), hn::Add(all(1), exp_of_minus(g)));
    const auto slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(all(1), s), all(1)));
    return {hn::Mul(g, s), slope};
  }
};

// (1 + tanh(z / 2)) / 2 is the logistic function of z = 2 sqrt(2 / pi) (g + 0.044715 g^3).
struct GeluTanh {
  static constexpr float kLinear = 1.5957691f;   // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.071354816f;  // 0.044715 kLinear
  static HWY_INLINE Lanes exp_of_minus_z(Lanes g) {
    const auto square = hn::Mul(g, g);
    return exp_of_minus(hn::Mul(g, hn::MulAdd(square, all(kCubic), all(kLinear))));
  }
  static HWY_INLINE Lanes value(Lanes g) { return hn::Div(g, hn::Add(all(1), exp_of_minus_z(g))); }
  static HWY_INLINE ValueAndSlope both(Lanes g) {
    const auto s = hn::Div(all(1), hn::Add(all(1), exp_of_minus_z(g)));
    const auto value = hn::Mul(g, s);
    // Beyond |g| = 20 the factor s (1 - s) vanishes; the bound keeps the square finite.
    const auto square = hn::Min(hn::Mul(g, g), all(400));
    const auto dz = hn::MulAdd(square, all(3 * kCubic), all(kLinear));
    return {value, hn::MulAdd(hn::Mul(value, hn::Sub(all(1), s)), dz, s)};
  }
};

// The share of a normal distribution below g is (1 + erf(g / sqrt 2)) / 2. Below -a it is
// exp(-a^2 / 2) t p(t), t = 1 / (1 + 0.3 a), relative error 1.5e-7: p is the minimax polynomial for
// a in [0, 14]; beyond, exp is 0.
struct GeluErf {
  static HWY_INLINE Lanes share_below(Lanes g, Lanes bell) {
    const auto t = hn::Div(all(1), hn::MulAdd(hn::Abs(g), all(0.3f), all(1)));
    auto p = hn::MulAdd(t, all(0.0356747635f), all(-0.157203037f));
    p = hn::MulAdd(p, t, all(0.206353426f));
    p = hn::MulAdd(p, t, all(-0.0536835692f));
    p = hn::MulAdd(p, t, all(0.128561587f));
    p = hn::MulAdd(p, t, all(0.0999135040f));
    p = hn::MulAdd(p, t, all(0.120753954f));
    p = hn::MulAdd(p, t, all(0.119629299f));
    const auto tail = hn::Mul(hn::Mul(p, t), bell);
    return hn::IfThenElse(hn::Lt(g, all(0)), tail, hn::Sub(all(1), tail));
  }
  static HWY_INLINE Lanes bell_of(Lanes g) {
    return exp_of_minus(hn::Mul(hn::Mul(g, all(0.5f)), g));
  }
  static HWY_INLINE Lanes value(Lanes g) { return hn::Mul(g, share_below(g, bell_of(g))); }
  static HWY_INLINE ValueAndSlope both(Lanes g) {
    const auto bell = bell_of(g);
    const auto share = share_below(g, bell);
    const auto density = hn::Mul(bell, all(0.39894228f));  // 1 / sqrt(2 pi)
    return {hn::Mul(g, share), hn::MulAdd(g, density, share)};
  }
};

struct ReluSquared {
  static HWY_INLINE Lanes positive(Lanes g) {  // NaN stays
    return hn::IfThenZeroElse(hn::Lt(g, all(0)), g);
  }
  static HWY_INLINE Lanes value(Lanes g) { return hn::Mul(positive(g), positive(g)); }
  static HWY_INLINE ValueAndSlope both(Lanes g) {
    return {value(g), hn::Add(positive(g), positive(g))};
  }
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
