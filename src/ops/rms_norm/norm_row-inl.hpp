// One row forward: the sum of squares, then each element; the second pass reads the row
// from a cache. Included once per instruction set.
#if defined(OCTET_OPS_RMS_NORM_NORM_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_RMS_NORM_NORM_ROW_INL
#undef OCTET_OPS_RMS_NORM_NORM_ROW_INL
#else
#define OCTET_OPS_RMS_NORM_NORM_ROW_INL
#endif

#include "ops/rms_norm/row_parts-inl.hpp"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rms_norm_rows {

template <class Lanes>
HWY_INLINE hn::Vec<F32> rounded_sum(hn::Vec<F32> x, hn::Vec<F32> y) {
  const auto sum = hn::Add(x, y);
  if constexpr (sizeof(typename Lanes::Storage) == sizeof(float)) {
    return sum;
  } else {
    return Lanes::decode(Lanes::encode(sum));
  }
}

// h of a run: x, or the sum with the residual.
template <class Lanes, bool kResidual>
HWY_INLINE void load_h(const typename Lanes::Storage* x, const typename Lanes::Storage* residual,
                       hn::Vec<F32>& low, hn::Vec<F32>& high) {
  Lanes::load(x, low, high);
  if constexpr (kResidual) {
    hn::Vec<F32> residual_low;
    hn::Vec<F32> residual_high;
    Lanes::load(residual, residual_low, residual_high);
    low = rounded_sum<Lanes>(low, residual_low);
    high = rounded_sum<Lanes>(high, residual_high);
  }
}

template <class Lanes, bool kResidual>
HWY_INLINE float sum_of_squares(const typename Lanes::Storage* x,
                                const typename Lanes::Storage* residual, std::int64_t cols) {
  using T = typename Lanes::Storage;
  VectorTreeSum squares;
  const auto add_tree = [&](const T* from, const T* residual_from) HWY_ATTR {
    squares.add(join_leaves<kTreeLevels>(
        [=](int leaf, hn::Vec<F32>& low, hn::Vec<F32>& high) HWY_ATTR {
          load_h<Lanes, kResidual>(from + leaf * kLanes, residual_from + leaf * kLanes, low, high);
          low = hn::Mul(low, low);
          high = hn::Mul(high, high);
        },
        0));
  };
  std::int64_t c = 0;
  for (; c + kTree <= cols; c += kTree) add_tree(x + c, residual + c);
  if (c < cols) {
    const Tail<T, kTree> x_tail(x, c, cols);
    const Tail<T, kTree> residual_tail(kResidual ? residual : nullptr, c, cols);
    add_tree(x_tail.elements, residual_tail.elements);
  }
  return squares.sum();
}

template <class Lanes, bool kResidual>
HWY_INLINE float norm_one_row(const NormedRow& row) {
  using T = typename Lanes::Storage;
  const auto* x = static_cast<const T*>(row.x);
  const auto* residual = static_cast<const T*>(kResidual ? row.residual : row.x);
  auto* y = static_cast<T*>(row.y);
  auto* sum = static_cast<T*>(kResidual ? row.sum : row.y);
  const float mean =
      sum_of_squares<Lanes, kResidual>(x, residual, row.cols) / static_cast<float>(row.cols);
  const float rstd = 1 / std::sqrt(mean + row.eps);
  const auto scale = hn::Set(F32(), rstd);
  const auto norm_run = [&](const T* from, const T* residual_from, std::int64_t c, T* to, T* sum_to,
                            bool stream_y, bool stream_sum) HWY_ATTR {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    load_h<Lanes, kResidual>(from, residual_from, low, high);
    if constexpr (kResidual) store_run<Lanes>(low, high, sum_to, stream_sum);
    store_run<Lanes>(hn::Mul(hn::Mul(low, scale), hn::LoadU(F32(), row.w + c)),
                     hn::Mul(hn::Mul(high, scale), hn::LoadU(F32(), row.w + c + kLanes)), to,
                     stream_y);
  };
  std::int64_t c = 0;
  for (; c + kRun <= row.cols; c += kRun) {
    prefetch_run(static_cast<const T*>(row.next_x), c);
    if constexpr (kResidual) prefetch_run(static_cast<const T*>(row.next_residual), c);
    norm_run(x + c, residual + c, c, y + c, sum + c, row.stream_y, row.stream_sum);
  }
  if (c < row.cols) {
    const Tail<T, kRun> x_tail(x, c, row.cols);
    const Tail<T, kRun> residual_tail(kResidual ? residual : nullptr, c, row.cols);
    alignas(64) T y_tail[kRun];
    alignas(64) T sum_tail[kRun];
    norm_run(x_tail.elements, residual_tail.elements, c, y_tail, sum_tail, false, false);
    copy_tail(y_tail, y, c, row.cols);
    if constexpr (kResidual) copy_tail(sum_tail, sum, c, row.cols);
  }
  return rstd;
}

template <class Lanes>
float norm_row(const NormedRow& row) {
  return row.residual != nullptr ? norm_one_row<Lanes, true>(row) : norm_one_row<Lanes, false>(row);
}

}  // namespace octet::HWY_NAMESPACE::rms_norm_rows
HWY_AFTER_NAMESPACE();

#endif
