// The kernels of linear_cross_entropy over one row of logits. Sums are trees of neighbours, so that
// every instruction set gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/linear_cross_entropy/cpu_simd.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"
#include "cpu/exp_of_minus-inl.hpp"
#include "cpu/tree_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace loss_rows {

inline constexpr int kTreeLevels = 4;
inline constexpr int kLanes = static_cast<int>(HWY_LANES(float));
inline constexpr std::int64_t kRun = 2 * kLanes;  // elements at a time
inline constexpr std::int64_t kTree = std::int64_t{kLanes} << kTreeLevels;

// The last elements of a row, filled up with -infinity, whose exponential is 0.
template <class Lanes>
struct Tail {
  using T = typename Lanes::Storage;
  alignas(64) T elements[kTree];

  HWY_INLINE Tail(const T* row, std::int64_t first, std::int64_t cols) {
    const auto fill = hn::Set(F32(), -std::numeric_limits<float>::infinity());
    for (std::int64_t c = 0; c < kTree; c += kLanes) Lanes::store(fill, elements + c);
    std::memcpy(elements, row + first, static_cast<std::size_t>(cols - first) * sizeof(T));
  }
};

// exp(-x), and NaN of NaN.
HWY_INLINE hn::Vec<F32> exp_of_minus_or_nan(hn::Vec<F32> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, exp_of_minus(x));
}

template <class Lanes>
HWY_INLINE float largest_of(const typename Lanes::Storage* row, std::int64_t cols) {
  auto largest = hn::Set(F32(), std::numeric_limits<float>::lowest());
  const auto take = [&](const typename Lanes::Storage* from) HWY_ATTR {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Lanes::load(from, low, high);
    largest = hn::Max(largest, hn::Max(low, high));
  };
  std::int64_t c = 0;
  for (; c + kRun <= cols; c += kRun) take(row + c);
  if (c < cols) take(Tail<Lanes>(row, c, cols).elements);
  return hn::GetLane(hn::MaxOfLanes(F32(), largest));
}

template <class Lanes>
ExpSum sum_row(const void* logits, std::int64_t cols) {
  using T = typename Lanes::Storage;
  const auto* row = static_cast<const T*>(logits);
  const float largest = largest_of<Lanes>(row, cols);
  const auto from_largest = hn::Set(F32(), largest);
  VectorTreeSum sum;
  const auto add_tree = [&](const T* from) HWY_ATTR {
    sum.add(join_leaves<kTreeLevels>(
        [=](int leaf, hn::Vec<F32>& low, hn::Vec<F32>& high) HWY_ATTR {
          Lanes::load(from + leaf * kLanes, low, high);
          low = exp_of_minus_or_nan(hn::Sub(from_largest, low));
          high = exp_of_minus_or_nan(hn::Sub(from_largest, high));
        },
        0));
  };
  std::int64_t c = 0;
  for (; c + kTree <= cols; c += kTree) add_tree(row + c);
  if (c < cols) add_tree(Tail<Lanes>(row, c, cols).elements);
  return {largest, sum.sum()};
}

template <class Lanes>
void softmax_row(void* logits, std::int64_t cols, float lse, float scale) {
  using T = typename Lanes::Storage;
  auto* row = static_cast<T*>(logits);
  const auto from_lse = hn::Set(F32(), lse);
  const auto factor = hn::Set(F32(), scale);
  const auto run = [&](T* at) HWY_ATTR {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Lanes::load(at, low, high);
    Lanes::store(hn::Mul(exp_of_minus_or_nan(hn::Sub(from_lse, low)), factor), at);
    Lanes::store(hn::Mul(exp_of_minus_or_nan(hn::Sub(from_lse, high)), factor), at + kLanes);
  };
  std::int64_t c = 0;
  for (; c + kRun <= cols; c += kRun) run(row + c);
  if (c < cols) {
    Tail<Lanes> tail(row, c, cols);
    run(tail.elements);
    std::memcpy(row + c, tail.elements, static_cast<std::size_t>(cols - c) * sizeof(T));
  }
}

}  // namespace loss_rows

// By dtype: f32, f16, bf16.
extern const LossRowsKernels kLossRowsKernels[3];
const LossRowsKernels kLossRowsKernels[3] = {
    {loss_rows::sum_row<EncodeF32>, loss_rows::softmax_row<EncodeF32>},
    {loss_rows::sum_row<EncodeF16>, loss_rows::softmax_row<EncodeF16>},
    {loss_rows::sum_row<EncodeBf16>, loss_rows::softmax_row<EncodeBf16>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const LossRowsKernels& loss_rows_kernels(Dtype dtype, InstructionSet instructions) {
  const LossRowsKernels* kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kLossRowsKernels : N_AVX2::kLossRowsKernels;
  return kernels[kernel_index(dtype)];
}

}  // namespace octet
#endif
