// One row backward: the sum of products, then each element and its share of dg.
// Included once per instruction set.
#if defined(OCTET_OPS_RMS_NORM_BACKWARD_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_RMS_NORM_BACKWARD_ROW_INL
#undef OCTET_OPS_RMS_NORM_BACKWARD_ROW_INL
#else
#define OCTET_OPS_RMS_NORM_BACKWARD_ROW_INL
#endif

#include "ops/rms_norm/row_parts-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rms_norm_rows {

template <class Lanes>
HWY_INLINE float sum_of_products(const GradientRow& row) {
  using T = typename Lanes::Storage;
  const auto* dy = static_cast<const T*>(row.dy);
  const auto* h = static_cast<const T*>(row.h);
  VectorTreeSum products;
  const auto add_tree = [&](const T* dy_from, const T* h_from, const float* w) HWY_ATTR {
    products.add(join_leaves<kTreeLevels>(
        [=](int leaf, hn::Vec<F32>& low, hn::Vec<F32>& high) HWY_ATTR {
          hn::Vec<F32> h_low;
          hn::Vec<F32> h_high;
          const int first = leaf * kLanes;
          Lanes::load(dy_from + first, low, high);
          Lanes::load(h_from + first, h_low, h_high);
          low = hn::Mul(hn::Mul(low, hn::LoadU(F32(), w + first)), h_low);
          high = hn::Mul(hn::Mul(high, hn::LoadU(F32(), w + first + kLanes)), h_high);
        },
        0));
  };
  std::int64_t c = 0;
  for (; c + kTree <= row.cols; c += kTree) add_tree(dy + c, h + c, row.w + c);
  if (c < row.cols) {
    const Tail<T, kTree> dy_tail(dy, c, row.cols);
    const Tail<T, kTree> h_tail(h, c, row.cols);
    const Tail<float, kTree> w_tail(row.w, c, row.cols);
    add_tree(dy_tail.elements, h_tail.elements, w_tail.elements);
  }
  return products.sum();
}

// A run of a gradient row; pointers are at the run.
template <class Lanes>
HWY_INLINE void gradient_run(const GradientRow& row, float k, const typename Lanes::Storage* dy,
                             const typename Lanes::Storage* h, const typename Lanes::Storage* dsum,
                             const float* w, typename Lanes::Storage* dx,
                             typename Lanes::Storage* dresidual, float* dg_sums, bool stream) {
  const F32 d;
  const auto scale = hn::Set(d, row.rstd);
  hn::Vec<F32> dy_of[2];
  hn::Vec<F32> h_of[2];
  hn::Vec<F32> dsum_of[2];
  hn::Vec<F32> dx_of[2];
  Lanes::load(dy, dy_of[0], dy_of[1]);
  Lanes::load(h, h_of[0], h_of[1]);
  if (dsum != nullptr) Lanes::load(dsum, dsum_of[0], dsum_of[1]);
  for (int i = 0; i < 2; ++i) {
    const auto t = hn::Mul(dy_of[i], hn::LoadU(d, w + i * kLanes));
    dx_of[i] = hn::Mul(hn::NegMulAdd(h_of[i], hn::Set(d, k), t), scale);
    if (dsum != nullptr) dx_of[i] = hn::Add(dx_of[i], dsum_of[i]);
    const auto share = hn::Mul(dy_of[i], hn::Mul(h_of[i], scale));
    hn::StoreU(hn::Add(hn::LoadU(d, dg_sums + i * kLanes), share), d, dg_sums + i * kLanes);
  }
  store_run<Lanes>(dx_of[0], dx_of[1], dx, stream);
  if (dresidual != nullptr) store_run<Lanes>(dx_of[0], dx_of[1], dresidual, stream);
}

template <class Lanes>
void backward_row(const GradientRow& row) {
  using T = typename Lanes::Storage;
  const float mean = sum_of_products<Lanes>(row) / static_cast<float>(row.cols);
  const float k = mean * row.rstd * row.rstd;
  const auto* dy = static_cast<const T*>(row.dy);
  const auto* h = static_cast<const T*>(row.h);
  const auto* dsum = static_cast<const T*>(row.dsum);
  auto* dx = static_cast<T*>(row.dx);
  auto* dresidual = static_cast<T*>(row.dresidual);
  const auto at = [](auto* pointer, std::int64_t c)
                      HWY_ATTR { return pointer != nullptr ? pointer + c : nullptr; };
  std::int64_t c = 0;
  for (; c + kRun <= row.cols; c += kRun) {
    prefetch_run(static_cast<const T*>(row.next_dy), c);
    prefetch_run(static_cast<const T*>(row.next_h), c);
    gradient_run<Lanes>(row, k, dy + c, h + c, at(dsum, c), row.w + c, dx + c, at(dresidual, c),
                        row.dg_sums + c, row.stream);
  }
  if (c < row.cols) {
    const Tail<T, kRun> dy_tail(dy, c, row.cols);
    const Tail<T, kRun> h_tail(h, c, row.cols);
    const Tail<T, kRun> dsum_tail(dsum, c, row.cols);
    alignas(64) T dx_tail[kRun];
    gradient_run<Lanes>(row, k, dy_tail.elements, h_tail.elements,
                        dsum != nullptr ? dsum_tail.elements : nullptr, row.w + c, dx_tail, nullptr,
                        row.dg_sums + c, false);
    copy_tail(dx_tail, dx, c, row.cols);
    copy_tail(dx_tail, dresidual, c, row.cols);
  }
}

}  // namespace octet::HWY_NAMESPACE::rms_norm_rows
HWY_AFTER_NAMESPACE();

#endif
