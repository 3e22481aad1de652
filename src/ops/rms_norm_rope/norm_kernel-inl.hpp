// One token of q or k: the norms first, each a tree of neighbours, then every head from registers.
// Included once per instruction set.
#if defined(OCTET_OPS_RMS_NORM_ROPE_NORM_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_RMS_NORM_ROPE_NORM_KERNEL_INL
#undef OCTET_OPS_RMS_NORM_ROPE_NORM_KERNEL_INL
#else
#define OCTET_OPS_RMS_NORM_ROPE_NORM_KERNEL_INL
#endif

#include "ops/rms_norm_rope/cpu_simd.hpp"
#include "ops/rope/turn_steps-inl.hpp"

#include <cmath>

#if OCTET_SIMD_TARGET
#include "cpu/tree_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

HWY_INLINE Split multiply(const Split& x, const Split& y) {
  return {hn::Mul(x.even, y.even), hn::Mul(x.odd, y.odd)};
}
HWY_INLINE TwoRuns multiply(const TwoRuns& x, const TwoRuns& y) {
  return {multiply(x.first, y.first), multiply(x.second, y.second)};
}
HWY_INLINE TwoRuns multiply(const TwoRuns& x, hn::Vec<F32> factor) {
  const Split both{factor, factor};
  return multiply(x, TwoRuns{both, both});
}

// A slot of weights or of their gradients: the two runs of a step.
inline constexpr int kSlot = 2 * kRun;
HWY_INLINE TwoRuns load_slot(const float* slot) {
  const F32 d;
  return {{hn::Load(d, slot), hn::Load(d, slot + kVector)},
          {hn::Load(d, slot + kRun), hn::Load(d, slot + kRun + kVector)}};
}
HWY_INLINE void store_slot(const TwoRuns& values, float* slot) {
  const F32 d;
  hn::Store(values.first.even, d, slot);
  hn::Store(values.first.odd, d, slot + kVector);
  hn::Store(values.second.even, d, slot + kRun);
  hn::Store(values.second.odd, d, slot + kRun + kVector);
}
HWY_INLINE void add_to_slot(const Split& values, float* slot) {
  const F32 d;
  hn::Store(hn::Add(hn::Load(d, slot), values.even), d, slot);
  hn::Store(hn::Add(hn::Load(d, slot + kVector), values.odd), d, slot + kVector);
}

// The first level of a tree: sums of neighbours, where they belong among those of a norm.
HWY_INLINE void store_pair_sums(const Split& terms, std::int64_t count, float* to) {
  const auto sums = hn::Add(terms.even, terms.odd);
  if (count == kRun) return hn::StoreU(sums, F32(), to);
  alignas(64) float lanes[kVector];
  hn::Store(sums, F32(), lanes);
  std::memcpy(to, lanes, static_cast<std::size_t>(count / 2) * sizeof(float));
}
HWY_INLINE void store_pair_sums(const TwoRuns& terms, const HeadStep& step, float* head_sums) {
  store_pair_sums(terms.first, step.first_count, head_sums + step.first / 2);
  store_pair_sums(terms.second, step.second_count, head_sums + step.second / 2);
}

// The levels above it; there is room for a vector behind the sums.
HWY_INLINE float sum_of_neighbours(float* sums, std::int64_t count) {
  hn::StoreU(hn::Zero(F32()), F32(), sums + count);
  VectorTreeSum tree;
  for (std::int64_t i = 0; i < count; i += kVector) tree.add(hn::LoadU(F32(), sums + i));
  return tree.sum();
}

template <class Lanes>
HWY_INLINE float reciprocal_rms(const NormSteps& steps, const typename Lanes::Element* x,
                                const NormToken& token) {
  for (std::int64_t h = 0; h < token.heads; ++h) {
    for (const HeadStep& step : steps.head.all) {
      const TwoRuns values = load_step<Lanes>(x + h * token.x_stride, step);
      store_pair_sums(multiply(values, values), step, token.sums + h * steps.head_dim / 2);
    }
  }
  const std::int64_t length = token.heads * steps.head_dim;
  const float mean = sum_of_neighbours(token.sums, length / 2) / static_cast<float>(length);
  return 1.0f / std::sqrt(mean + steps.eps);
}

template <class Lanes, bool kInterleaved>
void norm_forward(const NormSteps& steps, const NormToken& token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  const auto* x = static_cast<const Element*>(token.x);
  auto* out = static_cast<Element*>(token.out);
  for (std::int64_t n = 0; n < token.norms; ++n) {
    token.rstd[n] = reciprocal_rms<Lanes>(steps, x + n * token.heads * token.x_stride, token);
  }
  for (std::int64_t n = 0; n < token.norms; ++n) {
    const auto rstd = hn::Set(F32(), token.rstd[n]);
    const float* weights = token.weights;
    for (std::int64_t h = 0; h < token.heads; ++h) {
      for (std::size_t i = 0; i < steps.head.all.size(); ++i) {
        const HeadStep& step = steps.head.all[i];
        TwoRuns values = multiply(multiply(load_step<Lanes>(x, step), rstd), load_slot(weights));
        if (i < steps.head.turned) turn_step<kInterleaved>(angles, i, values);
        store_step<Lanes>(values, step, token.stream, out);
        weights += kSlot;
      }
      x += token.x_stride;
      out += token.out_stride;
    }
  }
}

// The gradient before the rotation.
template <class Lanes, bool kInterleaved>
HWY_INLINE TwoRuns load_dn(const NormSteps& steps, std::size_t i,
                           const typename Lanes::Element* dout, const StepAngles& angles) {
  TwoRuns dn = load_step<Lanes>(dout, steps.head.all[i]);
  if (i < steps.head.turned) turn_step<kInterleaved>(angles, i, dn);
  return dn;
}

// fma(-x, k, t) * rstd
HWY_INLINE Split input_gradient(const Split& x, const Split& t, hn::Vec<F32> k, hn::Vec<F32> rstd) {
  return {hn::Mul(hn::NegMulAdd(x.even, k, t.even), rstd),
          hn::Mul(hn::NegMulAdd(x.odd, k, t.odd), rstd)};
}

template <class Lanes, bool kInterleaved>
void norm_backward(const NormSteps& steps, const NormToken& token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  const auto* first_x = static_cast<const Element*>(token.x);
  const auto* first_dout = static_cast<const Element*>(token.dout);
  auto* first_dx = static_cast<Element*>(token.out);
  const std::int64_t length = token.heads * steps.head_dim;
  for (std::int64_t n = 0; n < token.norms; ++n) {
    const auto rstd = hn::Set(F32(), token.rstd[n]);
    for (std::int64_t h = 0; h < token.heads; ++h) {
      const Element* x_head = first_x + (n * token.heads + h) * token.x_stride;
      const Element* dout = first_dout + (n * token.heads + h) * token.dout_stride;
      for (std::size_t i = 0; i < steps.head.all.size(); ++i) {
        const std::size_t slot = (static_cast<std::size_t>(h) * steps.head.all.size() + i) * kSlot;
        const TwoRuns dn = load_dn<Lanes, kInterleaved>(steps, i, dout, angles);
        const TwoRuns x = load_step<Lanes>(x_head, steps.head.all[i]);
        const TwoRuns share = multiply(dn, multiply(x, rstd));
        add_to_slot(share.first, token.dg + slot);
        add_to_slot(share.second, token.dg + slot + kRun);
        store_pair_sums(multiply(multiply(dn, load_slot(token.weights + slot)), x),
                        steps.head.all[i], token.sums + h * steps.head_dim / 2);
      }
    }
    const float mean = sum_of_neighbours(token.sums, length / 2) / static_cast<float>(length);
    const auto k = hn::Set(F32(), (mean * token.rstd[n]) * token.rstd[n]);
    for (std::int64_t h = 0; h < token.heads; ++h) {
      const Element* x_head = first_x + (n * token.heads + h) * token.x_stride;
      const Element* dout = first_dout + (n * token.heads + h) * token.dout_stride;
      Element* dx = first_dx + (n * token.heads + h) * token.out_stride;
      for (std::size_t i = 0; i < steps.head.all.size(); ++i) {
        const std::size_t slot = (static_cast<std::size_t>(h) * steps.head.all.size() + i) * kSlot;
        const TwoRuns t = multiply(load_dn<Lanes, kInterleaved>(steps, i, dout, angles),
                                   load_slot(token.weights + slot));
        const TwoRuns x = load_step<Lanes>(x_head, steps.head.all[i]);
        store_step<Lanes>({input_gradient(x.first, t.first, k, rstd),
                           input_gradient(x.second, t.second, k, rstd)},
                          steps.head.all[i], token.stream, dx);
      }
    }
  }
}

template <class Lanes>
void split_weights(const NormSteps& steps, const TensorView& g, bool one_plus, float* to) {
  const auto* from = static_cast<const typename Lanes::Element*>(g.data);
  const auto* end = from + g.shape[0];
  for (; from != end; from += steps.head_dim) {
    for (const HeadStep& step : steps.head.all) {
      TwoRuns w = load_step<Lanes>(from, step);
      if (one_plus) {
        const auto one = hn::Set(F32(), 1.0f);
        w = {{hn::Add(one, w.first.even), hn::Add(one, w.first.odd)},
             {hn::Add(one, w.second.even), hn::Add(one, w.second.odd)}};
      }
      store_slot(w, to);
      to += kSlot;
    }
  }
}

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif
#endif
