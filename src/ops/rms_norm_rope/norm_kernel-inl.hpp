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

#include <hwy/cache_control.h>

#include <algorithm>

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

// The levels above it, of all norms at once: what they leave is the sum of each norm, in order. Two
// levels at a time, as long as there are two.
HWY_INLINE void sum_neighbours(const NormToken& token) {
  const F32 d;
  float* sums = token.sums;
  std::int64_t count = token.norms * token.sums_stride;
  for (std::int64_t of_norm = token.sums_stride; of_norm > 1; of_norm = (of_norm + 3) / 4) {
    for (int i = 0; i < 4; ++i) hn::StoreU(hn::Zero(d), d, sums + count + i * kVector);
    const auto pairs_at = [&](std::int64_t i) HWY_ATTR {
      return join_neighbours(hn::LoadU(d, sums + i), hn::LoadU(d, sums + i + kVector));
    };
    if (of_norm == 2) {
      for (std::int64_t i = 0; i < count; i += kRun) hn::StoreU(pairs_at(i), d, sums + i / 2);
      return;
    }
    for (std::int64_t i = 0; i < count; i += 2 * kRun) {
      hn::StoreU(join_neighbours(pairs_at(i), pairs_at(i + kRun)), d, sums + i / 4);
    }
    count = (count + 3) / 4;
  }
}

// There are zeros behind the sums of a norm.
HWY_INLINE void clear_behind_sums(const NormSteps& steps, const NormToken& token) {
  const std::int64_t used = token.heads * steps.head_dim / token.elements_per_sum;
  for (std::int64_t n = 0; n < token.norms; ++n) {
    std::fill(token.sums + n * token.sums_stride + used, token.sums + (n + 1) * token.sums_stride,
              0.0f);
  }
}

// Calls visit(norm, head of the token, head of the norm) for every head.
template <class Visit>
HWY_INLINE void for_heads(const NormToken& token, const Visit& visit) {
  for (std::int64_t n = 0; n < token.norms; ++n) {
    for (std::int64_t h = 0; h < token.heads; ++h) visit(n, n * token.heads + h, h);
  }
}

// The mean of each norm, from the sums; a sum is never -0.
template <class Use>
HWY_INLINE void for_means(const NormSteps& steps, const NormToken& token, const Use& use) {
  const F32 d;
  const auto length = hn::Set(d, static_cast<float>(token.heads * steps.head_dim));
  for (std::int64_t n = 0; n < token.norms; n += kVector) {
    const auto sum = hn::Add(hn::LoadU(d, token.sums + n), hn::Zero(d));
    use(n, hn::Div(sum, length));
  }
}

// Of a run of squares.
template <class Lanes>
HWY_INLINE hn::Vec<F32> pair_sums(const typename Lanes::Element* x) {
  const Split run = Lanes::load(x);
  return hn::Add(hn::Mul(run.even, run.even), hn::Mul(run.odd, run.odd));
}

// The squares of a head, three levels of the tree in registers where whole groups of runs allow it.
template <class Lanes>
HWY_INLINE void sum_squares(const typename Lanes::Element* x, std::int64_t head_dim,
                            std::int64_t elements_per_sum, float* sums) {
  if (elements_per_sum == 8) {
    for (std::int64_t i = 0; i < head_dim; i += 4 * kRun) {
      const auto left = join_neighbours(pair_sums<Lanes>(x + i), pair_sums<Lanes>(x + i + kRun));
      const auto right =
          join_neighbours(pair_sums<Lanes>(x + i + 2 * kRun), pair_sums<Lanes>(x + i + 3 * kRun));
      hn::StoreU(join_neighbours(left, right), F32(), sums + i / 8);
    }
    return;
  }
  for (std::int64_t i = 0; i < head_dim; i += kRun) {
    const std::int64_t count = HWY_MIN(kRun, head_dim - i);
    const Split run = load_run<Lanes>(x + i, count);
    store_pair_sums(multiply(run, run), count, sums + i / 2);
  }
}

template <class Lanes>
HWY_INLINE void reciprocal_rms(const NormSteps& steps, const NormToken& token) {
  const F32 d;
  clear_behind_sums(steps, token);
  for_heads(token, [&](std::int64_t n, std::int64_t head, std::int64_t h) HWY_ATTR {
    const auto* x = static_cast<const typename Lanes::Element*>(token.x) + head * token.x_stride;
    float* sums = token.sums + n * token.sums_stride + h * steps.head_dim / token.elements_per_sum;
    sum_squares<Lanes>(x, steps.head_dim, token.elements_per_sum, sums);
  });
  sum_neighbours(token);
  for_means(steps, token, [&](std::int64_t n, hn::Vec<F32> mean) HWY_ATTR {
    const auto root = hn::Sqrt(hn::Add(mean, hn::Set(d, steps.eps)));
    hn::StoreU(hn::Div(hn::Set(d, 1.0f), root), d, token.factors + n);
  });
}

template <class Lanes>
HWY_INLINE void prefetch_step(const void* next, std::int64_t offset, const HeadStep& step) {
  const auto* from = static_cast<const typename Lanes::Element*>(next) + offset;
  hwy::Prefetch(from + step.first);
  hwy::Prefetch(from + step.second);
}

// By value, so that the compiler knows that no store changes them.
template <class Lanes, bool kInterleaved>
void norm_forward(NormSteps steps, NormToken token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  reciprocal_rms<Lanes>(steps, token);
  for_heads(token, [&](std::int64_t n, std::int64_t head, std::int64_t h) HWY_ATTR {
    const auto* x = static_cast<const Element*>(token.x) + head * token.x_stride;
    auto* out = static_cast<Element*>(token.out) + head * token.out_stride;
    const auto rstd = hn::Set(F32(), token.factors[n]);
    const float* weights = token.weights + h * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, weights += kSlot) {
      const HeadStep step = steps.all[i];
      prefetch_step<Lanes>(token.next_x, head * token.x_stride, step);
      TwoRuns values = multiply(multiply(load_step<Lanes>(x, step), rstd), load_slot(weights));
      if (i < steps.turned) turn_step<kInterleaved>(angles, i, values);
      store_step<Lanes>(values, step, token.stream, out);
    }
  });
}

// The gradient before the rotation.
template <class Lanes, bool kInterleaved>
HWY_INLINE TwoRuns load_dn(const NormSteps& steps, std::int64_t i,
                           const typename Lanes::Element* dout, const StepAngles& angles) {
  TwoRuns dn = load_step<Lanes>(dout, steps.all[i]);
  if (i < steps.turned) turn_step<kInterleaved>(angles, i, dn);
  return dn;
}

// Adds the token's share of dg, and leaves k of each norm in the factors.
template <class Lanes, bool kInterleaved>
HWY_INLINE void reduce_gradients(const NormSteps& steps, const NormToken& token,
                                 const StepAngles& angles) {
  using Element = typename Lanes::Element;
  const F32 d;
  clear_behind_sums(steps, token);
  for_heads(token, [&](std::int64_t n, std::int64_t head, std::int64_t h) HWY_ATTR {
    const auto* x_head = static_cast<const Element*>(token.x) + head * token.x_stride;
    const auto* dout = static_cast<const Element*>(token.dout) + head * token.dout_stride;
    const auto rstd = without_payload(hn::Set(d, token.rstd[n]));
    float* sums = token.sums + n * token.sums_stride + h * steps.head_dim / 2;
    std::int64_t slot = h * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, slot += kSlot) {
      const HeadStep step = steps.all[i];
      const TwoRuns dn = load_dn<Lanes, kInterleaved>(steps, i, dout, angles);
      const TwoRuns x = load_step<Lanes>(x_head, step);
      const TwoRuns share = multiply(dn, multiply(x, rstd));
      add_to_slot(share.first, token.dg + slot);
      add_to_slot(share.second, token.dg + slot + kRun);
      store_pair_sums(multiply(multiply(dn, load_slot(token.weights + slot)), x), step, sums);
    }
  });
  sum_neighbours(token);
  for_means(steps, token, [&](std::int64_t n, hn::Vec<F32> mean) HWY_ATTR {
    alignas(64) float rstd[kVector] = {};
    std::copy_n(token.rstd + n, std::min<std::int64_t>(kVector, token.norms - n), rstd);
    const auto r = hn::Load(d, rstd);
    hn::StoreU(without_payload(hn::Mul(hn::Mul(mean, r), r)), d, token.factors + n);
  });
}

// fma(-x, k, t) * rstd
HWY_INLINE Split input_gradient(const Split& x, const Split& t, hn::Vec<F32> k, hn::Vec<F32> rstd) {
  return {hn::Mul(hn::NegMulAdd(x.even, k, t.even), rstd),
          hn::Mul(hn::NegMulAdd(x.odd, k, t.odd), rstd)};
}

template <class Lanes, bool kInterleaved>
void norm_backward(NormSteps steps, NormToken token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  reduce_gradients<Lanes, kInterleaved>(steps, token, angles);
  for_heads(token, [&](std::int64_t n, std::int64_t head, std::int64_t h) HWY_ATTR {
    const auto* x_head = static_cast<const Element*>(token.x) + head * token.x_stride;
    const auto* dout = static_cast<const Element*>(token.dout) + head * token.dout_stride;
    auto* dx = static_cast<Element*>(token.out) + head * token.out_stride;
    const auto rstd = without_payload(hn::Set(F32(), token.rstd[n]));
    const auto k = hn::Set(F32(), token.factors[n]);
    const float* weights = token.weights + h * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, weights += kSlot) {
      const HeadStep step = steps.all[i];
      prefetch_step<Lanes>(token.next_x, head * token.x_stride, step);
      prefetch_step<Lanes>(token.next_dout, head * token.dout_stride, step);
      const TwoRuns dn = load_dn<Lanes, kInterleaved>(steps, i, dout, angles);
      const TwoRuns t = multiply(dn, load_slot(weights));
      const TwoRuns x = load_step<Lanes>(x_head, step);
      store_step<Lanes>(
          {input_gradient(x.first, t.first, k, rstd), input_gradient(x.second, t.second, k, rstd)},
          step, token.stream, dx);
    }
  });
}

template <class Lanes>
void split_weights(NormSteps steps, const TensorView& g, bool one_plus, float* to) {
  const auto* from = static_cast<const typename Lanes::Element*>(g.data);
  const auto* end = from + g.shape[0];
  for (; from != end; from += steps.head_dim) {
    for (std::int64_t i = 0; i < steps.count; ++i) {
      TwoRuns w = load_step<Lanes>(from, steps.all[i]);
      if (one_plus) {
        const auto one = hn::Set(F32(), 1.0f);
        w = {{hn::Add(one, w.first.even), hn::Add(one, w.first.odd)},
             {hn::Add(one, w.second.even), hn::Add(one, w.second.odd)}};
      }
      store_slot({without_payload(w.first), without_payload(w.second)}, to);
      to += kSlot;
    }
  }
}

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif
#endif
