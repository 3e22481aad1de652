// The kernels of rms_norm_rope over one token of q or k: the norms first, each a tree of neighbours,
// then every head from registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm_rope/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>

#include "ops/rms_norm_rope/norm_sums-inl.hpp"

#include <hwy/cache_control.h>

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

// The squares of a run, summed in pairs of neighbours.
template <class Lanes>
HWY_INLINE hn::Vec<F32> pair_sums(const typename Lanes::Element* x) {
  const Split run = Lanes::load(x);
  return hn::Add(hn::Mul(run.even, run.even), hn::Mul(run.odd, run.odd));
}

// Sums the squares of a head: three levels of the tree in registers if the head is whole groups of
// four runs, else one level.
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
  for (HeadOfToken at(token); at.more(); at.step()) {
    const auto* x = static_cast<const typename Lanes::Element*>(token.x) + at.head * token.x_stride;
    float* sums = token.sums + at.norm * token.sums_stride +
                  at.head_of_norm * steps.head_dim / token.elements_per_sum;
    sum_squares<Lanes>(x, steps.head_dim, token.elements_per_sum, sums);
  }
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
template <class Lanes>
void norm_forward(NormSteps steps, NormToken token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  reciprocal_rms<Lanes>(steps, token);
  for (HeadOfToken at(token); at.more(); at.step()) {
    const auto* x = static_cast<const Element*>(token.x) + at.head * token.x_stride;
    auto* out = static_cast<Element*>(token.out) + at.head * token.out_stride;
    const auto rstd = hn::Set(F32(), token.factors[at.norm]);
    const float* weights = token.weights + at.head_of_norm * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, weights += kSlot) {
      const HeadStep step = steps.all[i];
      prefetch_step<Lanes>(token.next_x, at.head * token.x_stride, step);
      TwoRuns values = multiply(multiply(load_step<Lanes>(x, step), rstd), load_slot(weights));
      if (i < steps.rotated) rotate_step(steps.interleaved, angles, i, values);
      store_step<Lanes>(values, step, token.stream, out);
    }
  }
}

// dn: the gradient with the rotation undone.
template <class Lanes>
HWY_INLINE TwoRuns load_dn(const NormSteps& steps, std::int64_t i,
                           const typename Lanes::Element* dout, const StepAngles& angles) {
  TwoRuns dn = load_step<Lanes>(dout, steps.all[i]);
  if (i < steps.rotated) rotate_step(steps.interleaved, angles, i, dn);
  return dn;
}

// Adds the token's share of dg, and stores k of each norm in the factors.
template <class Lanes>
HWY_INLINE void reduce_gradients(const NormSteps& steps, const NormToken& token,
                                 const StepAngles& angles) {
  using Element = typename Lanes::Element;
  const F32 d;
  clear_behind_sums(steps, token);
  for (HeadOfToken at(token); at.more(); at.step()) {
    const auto* x_head = static_cast<const Element*>(token.x) + at.head * token.x_stride;
    const auto* dout = static_cast<const Element*>(token.dout) + at.head * token.dout_stride;
    const auto rstd = without_payload(hn::Set(d, token.rstd[at.norm]));
    float* sums = token.sums + at.norm * token.sums_stride + at.head_of_norm * steps.head_dim / 2;
    std::int64_t slot = at.head_of_norm * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, slot += kSlot) {
      const HeadStep step = steps.all[i];
      const TwoRuns dn = load_dn<Lanes>(steps, i, dout, angles);
      const TwoRuns x = load_step<Lanes>(x_head, step);
      const TwoRuns share = multiply(dn, multiply(x, rstd));
      add_to_slot(share.first, token.dg + slot);
      add_to_slot(share.second, token.dg + slot + kRun);
      store_pair_sums(multiply(multiply(dn, load_slot(token.weights + slot)), x), step, sums);
    }
  }
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

template <class Lanes>
void norm_backward(NormSteps steps, NormToken token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  reduce_gradients<Lanes>(steps, token, angles);
  for (HeadOfToken at(token); at.more(); at.step()) {
    const auto* x_head = static_cast<const Element*>(token.x) + at.head * token.x_stride;
    const auto* dout = static_cast<const Element*>(token.dout) + at.head * token.dout_stride;
    auto* dx = static_cast<Element*>(token.out) + at.head * token.out_stride;
    const auto rstd = without_payload(hn::Set(F32(), token.rstd[at.norm]));
    const auto k = hn::Set(F32(), token.factors[at.norm]);
    const float* weights = token.weights + at.head_of_norm * steps.count * kSlot;
    for (std::int64_t i = 0; i < steps.count; ++i, weights += kSlot) {
      const HeadStep step = steps.all[i];
      prefetch_step<Lanes>(token.next_x, at.head * token.x_stride, step);
      prefetch_step<Lanes>(token.next_dout, at.head * token.dout_stride, step);
      const TwoRuns dn = load_dn<Lanes>(steps, i, dout, angles);
      const TwoRuns t = multiply(dn, load_slot(weights));
      const TwoRuns x = load_step<Lanes>(x_head, step);
      store_step<Lanes>(
          {input_gradient(x.first, t.first, k, rstd), input_gradient(x.second, t.second, k, rstd)},
          step, token.stream, dx);
    }
  }
}

extern const NormRopeKernels kNormRopeKernels;
const NormRopeKernels kNormRopeKernels{
    kRun,
    {prepare_angles<SplitF32>, prepare_angles<SplitF16>, prepare_angles<SplitBf16>},
    {split_weights<SplitF32>, split_weights<SplitF16>, split_weights<SplitBf16>},
    {norm_forward<SplitF32>, norm_forward<SplitF16>, norm_forward<SplitBf16>},
    {norm_backward<SplitF32>, norm_backward<SplitF16>, norm_backward<SplitBf16>},
};

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const NormRopeKernels& norm_rope_kernels(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? N_AVX3::rotary::kNormRopeKernels
                                                : N_AVX2::rotary::kNormRopeKernels;
}

}  // namespace octet
#endif
