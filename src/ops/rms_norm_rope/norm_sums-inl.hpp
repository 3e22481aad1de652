// What the kernels of rms_norm_rope share: products of runs, slots of weights, and the sums of
// norms as trees of neighbours. Included once per instruction set.
#if defined(OCTET_OPS_RMS_NORM_ROPE_NORM_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_RMS_NORM_ROPE_NORM_SUMS_INL
#undef OCTET_OPS_RMS_NORM_ROPE_NORM_SUMS_INL
#else
#define OCTET_OPS_RMS_NORM_ROPE_NORM_SUMS_INL
#endif

#include "ops/rms_norm_rope/cpu_simd.hpp"
#include "ops/rope/rotate_steps-inl.hpp"

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

// Stores the first level of a tree: sums of neighbours, at their places among the sums of a norm.
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

// Sums the levels above the first, of all norms at once, two levels at a time while there are two.
// The results are the sums of the norms, in order.
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

// Zero-fills the places after the sums of each norm.
HWY_INLINE void clear_behind_sums(const NormSteps& steps, const NormToken& token) {
  const std::int64_t used = token.heads * steps.head_dim / token.elements_per_sum;
  for (std::int64_t n = 0; n < token.norms; ++n) {
    std::fill(token.sums + n * token.sums_stride + used, token.sums + (n + 1) * token.sums_stride,
              0.0f);
  }
}

// Iterates over the heads of a token.
struct HeadOfToken {
  std::int64_t norms;
  std::int64_t heads;  // per norm
  std::int64_t head = 0;
  std::int64_t norm = 0;
  std::int64_t head_of_norm = 0;

  HWY_INLINE explicit HeadOfToken(const NormToken& token)
      : norms(token.norms), heads(token.heads) {}
  HWY_INLINE bool more() const { return norm < norms; }
  HWY_INLINE void step() {
    ++head;
    if (++head_of_norm == heads) {
      head_of_norm = 0;
      ++norm;
    }
  }
};

// Calls use(n, means) for a vector of norms at a time; adding 0 turns a sum of -0 into 0.
template <class Use>
HWY_INLINE void for_means(const NormSteps& steps, const NormToken& token, const Use& use) {
  const F32 d;
  const auto length = hn::Set(d, static_cast<float>(token.heads * steps.head_dim));
  for (std::int64_t n = 0; n < token.norms; n += kVector) {
    const auto sum = hn::Add(hn::LoadU(d, token.sums + n), hn::Zero(d));
    use(n, hn::Div(sum, length));
  }
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
