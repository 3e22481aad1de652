// The rotation of one step of a head. Included once per instruction set.
#if defined(OCTET_OPS_ROPE_ROTATE_STEPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_ROPE_ROTATE_STEPS_INL
#undef OCTET_OPS_ROPE_ROTATE_STEPS_INL
#else
#define OCTET_OPS_ROPE_ROTATE_STEPS_INL
#endif

#include "ops/rope/head_steps.hpp"
#include "ops/rope/split_lanes-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

// The elements of a step.
struct TwoRuns {
  Split first;
  Split second;
};

template <class Lanes>
HWY_INLINE TwoRuns load_step(const typename Lanes::Element* head, const HeadStep& step) {
  return {load_run<Lanes>(head + step.first, step.first_count),
          load_run<Lanes>(head + step.second, step.second_count)};
}

template <class Lanes>
HWY_INLINE void store_step(const TwoRuns& values, const HeadStep& step, bool stream,
                           typename Lanes::Element* head) {
  store_run<Lanes>(values.first, step.first_count, stream, head + step.first);
  store_run<Lanes>(values.second, step.second_count, stream, head + step.second);
}

// Rotates a vector of pairs.
HWY_INLINE void rotate_pairs(hn::Vec<F32>& a, hn::Vec<F32>& b, const float* cos, const float* sin) {
  const auto c = hn::Load(F32(), cos);
  const auto s = hn::Load(F32(), sin);
  const auto rotated_a = hn::MulSub(a, c, hn::Mul(b, s));
  b = hn::MulAdd(b, c, hn::Mul(a, s));
  a = rotated_a;
}

// `index` counts the steps that rotate.
HWY_INLINE void rotate_step(bool interleaved, const StepAngles& angles, std::int64_t index,
                            TwoRuns& values) {
  const float* cos = angles.cos + index * kRun;
  const float* sin = angles.sin + index * kRun;
  if (interleaved) {
    rotate_pairs(values.first.even, values.first.odd, cos, sin);
    rotate_pairs(values.second.even, values.second.odd, cos + kVector, sin + kVector);
  } else {
    rotate_pairs(values.first.even, values.second.even, cos, sin);
    rotate_pairs(values.first.odd, values.second.odd, cos + kVector, sin + kVector);
  }
}

// Loads the angles of a step's pairs from one cache, in the order of rotate_step.
template <class Lanes>
HWY_INLINE Split load_angles(const typename Lanes::Element* row, const AngleRows& rows,
                             std::int64_t pair, std::int64_t count) {
  if (!rows.interleaved) return load_run<Lanes>(row + pair, count);
  if (!rows.full) {
    const InOrder vectors = in_order(load_run<Lanes>(row + pair, count));
    return {vectors.first, vectors.second};
  }
  const std::int64_t columns = 2 * count;
  const Split first = load_run<Lanes>(row + 2 * pair, HWY_MIN(columns, kRun));
  if (columns <= kRun) return {first.even, hn::Zero(F32())};
  return {first.even, load_run<Lanes>(row + 2 * pair + kRun, columns - kRun).even};
}

template <class Lanes>
void prepare_angles(const AngleRows& rows, const HeadSteps& steps, StepAngles& angles) {
  const F32 d;
  const auto* cos = static_cast<const typename Lanes::Element*>(rows.cos);
  const auto* sin = static_cast<const typename Lanes::Element*>(rows.sin);
  const auto sign = hn::Set(d, rows.inverse ? -0.0f : 0.0f);
  for (std::int64_t i = 0; i < steps.rotated; ++i) {
    const HeadStep& step = steps.all[static_cast<std::size_t>(i)];
    const std::int64_t pairs = (step.first_count + step.second_count) / 2;
    const Split c = without_payload(load_angles<Lanes>(cos, rows, step.pair, pairs));
    const Split s = without_payload(load_angles<Lanes>(sin, rows, step.pair, pairs));
    hn::Store(c.even, d, angles.cos + i * kRun);
    hn::Store(c.odd, d, angles.cos + i * kRun + kVector);
    hn::Store(hn::Xor(s.even, sign), d, angles.sin + i * kRun);
    hn::Store(hn::Xor(s.odd, sign), d, angles.sin + i * kRun + kVector);
  }
}

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif
#endif
