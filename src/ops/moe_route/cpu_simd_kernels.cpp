// A token at a time, its experts in vectors: scores, keys of scores, and the choice as the largest
// key, top_k times. The bits are those of the reference.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/moe_route/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/exp_of_minus.hpp"
#include "core/tree_sum.hpp"
#include "ops/moe_route/cpu_simd.hpp"
#include "ops/moe_route/score_order.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"
#include "cpu/exp_of_minus-inl.hpp"
#include "cpu/tree_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace moe_route {

using U32 = hn::RebindToUnsigned<F32>;
inline constexpr auto kLanes = static_cast<std::int64_t>(HWY_LANES(float));
inline constexpr std::int64_t kPiece = 2 * kLanes;
static_assert(kMaxExperts % kPiece == 0);

constexpr std::int64_t whole_pieces(std::int64_t experts) {
  return (experts + kPiece - 1) / kPiece * kPiece;
}

// Numbers of all experts, in whole pieces.
struct PerExpert {
  alignas(64) float values[kMaxExperts];

  // Behind the last expert.
  void fill_from(std::int64_t experts, float value) {
    std::fill(values + experts, values + whole_pieces(experts), value);
  }
};
struct Keys {
  alignas(64) std::uint32_t values[kMaxExperts];
};

template <class Lanes>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<Lanes, EncodeF32>) return Dtype::f32;
  if constexpr (std::is_same_v<Lanes, EncodeF16>) return Dtype::f16;
  return Dtype::bf16;
}

// Calls change(vector) for every vector of the experts.
template <class Change>
HWY_INLINE void for_each_vector(std::int64_t experts, PerExpert& numbers, const Change& change) {
  for (std::int64_t i = 0; i < experts; i += kLanes) {
    hn::Store(change(hn::Load(F32(), numbers.values + i)), F32(), numbers.values + i);
  }
}

// The exponential for NaN, too, which stays NaN.
HWY_INLINE hn::Vec<F32> exp_or_nan(hn::Vec<F32> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, exp_of_minus(x));
}

// The balanced tree over all experts; numbers beyond the last are zeros.
template <class Term>
HWY_INLINE float sum_of_experts(std::int64_t experts, const Term& term) {
  VectorTreeSum sum;
  for (std::int64_t i = 0; i < experts; i += kPiece) {
    sum.add(join_neighbours(term(i), term(i + kLanes)));
  }
  return sum.sum();
}

HWY_INLINE void write_sigmoid(std::int64_t experts, PerExpert& scores) {
  const auto one = hn::Set(F32(), 1.0f);
  for_each_vector(experts, scores, [&](hn::Vec<F32> x) HWY_ATTR {
    return hn::Div(one, hn::Add(one, exp_or_nan(x)));
  });
  scores.fill_from(experts, 0);
}

HWY_INLINE void write_softmax(std::int64_t experts, PerExpert& scores) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  scores.fill_from(experts, -kInfinity);  // their exponentials are zeros
  auto largest = hn::Set(F32(), -kInfinity);
  auto nans = hn::Zero(F32());
  for_each_vector(experts, scores, [&](hn::Vec<F32> x) HWY_ATTR {
    largest = hn::Max(largest, x);
    nans = hn::Add(nans, hn::IfThenElseZero(hn::IsNaN(x), x));
    return x;
  });
  if (!hn::AllFalse(F32(), hn::IsNaN(nans))) {
    std::fill(scores.values, scores.values + experts, std::numeric_limits<float>::quiet_NaN());
    return scores.fill_from(experts, 0);
  }
  const auto top = hn::MaxOfLanes(F32(), largest);
  for_each_vector(experts, scores,
                  [&](hn::Vec<F32> x) HWY_ATTR { return exp_or_nan(hn::Sub(top, x)); });
  scores.fill_from(experts, 0);
  const auto divisor = hn::Set(F32(), sum_of_experts(experts, [&](std::int64_t i) HWY_ATTR {
                                 return hn::Load(F32(), scores.values + i);
                               }));
  for_each_vector(experts, scores, [&](hn::Vec<F32> x) HWY_ATTR { return hn::Div(x, divisor); });
  scores.fill_from(experts, 0);
}

// score_key() of every expert; 0 beyond the last.
HWY_INLINE void write_keys(std::int64_t experts, const PerExpert& biased, Keys& keys) {
  const auto sign = hn::Set(U32(), 0x80000000u);
  for (std::int64_t i = 0; i < experts; i += kLanes) {
    const auto score = hn::Load(F32(), biased.values + i);
    // Adding a zero turns -0 into 0.
    const auto bits = hn::BitCast(U32(), hn::Add(score, hn::Zero(F32())));
    const auto negative = hn::RebindMask(U32(), hn::Lt(score, hn::Zero(F32())));
    auto key = hn::IfThenElse(negative, hn::Not(bits), hn::Or(bits, sign));
    key = hn::IfThenElse(hn::RebindMask(U32(), hn::IsNaN(score)), hn::Set(U32(), ~0u), key);
    hn::Store(key, U32(), keys.values + i);
  }
  std::fill(keys.values + experts, keys.values + whole_pieces(experts), 0u);
}

// The places of the `count` largest keys, ties by place. They become 0.
HWY_INLINE void take_largest(std::int64_t length, std::int64_t count, Keys& keys,
                             std::int32_t* places) {
  for (std::int64_t n = 0; n < count; ++n) {
    auto largest = hn::Zero(U32());
    for (std::int64_t i = 0; i < length; i += kLanes) {
      largest = hn::Max(largest, hn::Load(U32(), keys.values + i));
    }
    largest = hn::MaxOfLanes(U32(), largest);
    std::int64_t i = 0;
    auto found = hn::FindFirstTrue(U32(), hn::Eq(hn::Load(U32(), keys.values), largest));
    while (found < 0) {
      i += kLanes;
      found = hn::FindFirstTrue(U32(), hn::Eq(hn::Load(U32(), keys.values + i), largest));
    }
    places[n] = static_cast<std::int32_t>(i + found);
    keys.values[i + found] = 0;
  }
}

// Keys of experts outside of the best groups become 0.
HWY_INLINE void keep_best_groups(const MoeRouteProblem& problem, Keys& keys) {
  const std::int64_t groups = problem.expert_groups;
  const std::int64_t length = problem.experts / groups;
  PerExpert scores;
  for (std::int64_t group = 0; group < groups; ++group) {
    std::uint32_t best = 0;
    std::uint32_t second = score_key(-std::numeric_limits<float>::infinity());
    for (std::int64_t i = group * length; i < (group + 1) * length; ++i) {
      const std::uint32_t key = keys.values[i];
      second = std::max(second, std::min(best, key));
      best = std::max(best, key);
    }
    const float score = score_of_key(best);
    scores.values[group] =
        problem.group_score == ExpertGroupScore::best ? score : score + score_of_key(second);
  }
  scores.fill_from(groups, 0);
  Keys group_keys;
  write_keys(groups, scores, group_keys);
  std::array<std::int32_t, kMaxExperts> best;
  take_largest(groups, problem.top_groups, group_keys, best.data());
  std::array<bool, kMaxExperts> open{};
  for (std::int64_t n = 0; n < problem.top_groups; ++n) {
    open[static_cast<std::size_t>(best[static_cast<std::size_t>(n)])] = true;
  }
  for (std::int64_t group = 0; group < groups; ++group) {
    if (open[static_cast<std::size_t>(group)]) continue;
    std::fill_n(keys.values + group * length, length, 0u);
  }
}

template <class Lanes>
HWY_INLINE void load_logits(const void* from, std::int64_t experts, PerExpert& to) {
  const auto* row = static_cast<const typename Lanes::Storage*>(from);
  std::int64_t i = 0;
  for (; i + kPiece <= experts; i += kPiece) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Lanes::load(row + i, low, high);
    hn::Store(low, F32(), to.values + i);
    hn::Store(high, F32(), to.values + i + kLanes);
  }
  for (; i < experts; ++i) to.values[i] = load_f32(row, i, dtype_of<Lanes>());
  to.fill_from(experts, 0);
}

template <class Lanes>
void route_token(const MoeRouteProblem& problem, const RoutedToken& token) {
  PerExpert scores;
  load_logits<Lanes>(token.logits, problem.experts, scores);
  if (problem.score == RouteScore::softmax) {
    write_softmax(problem.experts, scores);
  } else {
    write_sigmoid(problem.experts, scores);
  }
  PerExpert biased = scores;
  for (std::int64_t i = 0; token.bias != nullptr && i < problem.experts; ++i) {
    biased.values[i] += token.bias[i];
  }
  Keys keys;
  write_keys(problem.experts, biased, keys);
  if (problem.expert_groups > 1) keep_best_groups(problem, keys);
  take_largest(problem.experts, problem.top_k, keys, token.indices);

  TreeSum sum;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    token.weights[k] = scores.values[token.indices[k]];
    sum.add(token.weights[k]);
  }
  const float divisor = sum.sum() + kWeightSumEps;
  for (std::int64_t k = 0; k < problem.top_k; ++k) {
    const float share = problem.normalize ? token.weights[k] / divisor : token.weights[k];
    token.weights[k] = share * problem.scale;
  }
  if (token.scores != nullptr) std::copy_n(scores.values, problem.experts, token.scores);
}

template <class Lanes>
void backward_token(const MoeRouteProblem& problem, const float* given_scores, float* dscore,
                    void* dlogits) {
  const std::int64_t experts = problem.experts;
  PerExpert scores;
  std::copy_n(given_scores, experts, scores.values);
  scores.fill_from(experts, 0);
  const float mean_of_all = sum_of_experts(experts, [&](std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::Load(F32(), dscore + i), hn::Load(F32(), scores.values + i));
  });
  const auto mean = hn::Set(F32(), mean_of_all);
  const auto one = hn::Set(F32(), 1.0f);
  const bool softmax = problem.score == RouteScore::softmax;
  for (std::int64_t i = 0; i < experts; i += kLanes) {
    const auto s = hn::Load(F32(), scores.values + i);
    const auto ds = hn::Load(F32(), dscore + i);
    hn::Store(softmax ? hn::Mul(s, hn::Sub(ds, mean)) : hn::Mul(ds, hn::Mul(s, hn::Sub(one, s))),
              F32(), scores.values + i);
  }
  auto* row = static_cast<typename Lanes::Storage*>(dlogits);
  std::int64_t i = 0;
  for (; i + kLanes <= experts; i += kLanes) {
    Lanes::store(hn::Load(F32(), scores.values + i), row + i);
  }
  for (; i < experts; ++i) store_f32(row, i, dtype_of<Lanes>(), scores.values[i]);
}

template <class Lanes>
constexpr MoeRouteKernels kernels_of() {
  return {route_token<Lanes>, backward_token<Lanes>};
}

}  // namespace moe_route

// By dtype: f32, f16, bf16.
extern const MoeRouteKernels kMoeRouteKernels[3];
const MoeRouteKernels kMoeRouteKernels[3] = {
    moe_route::kernels_of<EncodeF32>(),
    moe_route::kernels_of<EncodeF16>(),
    moe_route::kernels_of<EncodeBf16>(),
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const MoeRouteKernels& moe_route_kernels(Dtype dtype, InstructionSet instructions) {
  const MoeRouteKernels* kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kMoeRouteKernels : N_AVX2::kMoeRouteKernels;
  return kernels[kernel_index(dtype)];
}

}  // namespace octet
#endif
