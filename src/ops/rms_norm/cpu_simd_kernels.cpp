// The kernels of rms_norm over one row. Forward computes the sum of squares, then each element;
// backward the sum of products, then each element and its share of dg. The second pass reads the
// row from a cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/rms_norm/cpu_simd.hpp"

#include <cmath>
#include <cstring>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"
#include "cpu/tree_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace rms_norm_rows {

// A row is divided into whole trees or whole runs, and a tail. A tree joins 2^kTreeLevels vectors.
inline constexpr int kTreeLevels = 4;
inline constexpr int kLanes = static_cast<int>(HWY_LANES(float));
inline constexpr std::int64_t kRun = 2 * kLanes;  // elements at a time
inline constexpr std::int64_t kTree = std::int64_t{kLanes} << kTreeLevels;
static_assert(kWeightStep % kRun == 0, "w is read in whole runs");

// The last elements of a row, zero-filled.
template <class T, std::int64_t kLength>
struct Tail {
  alignas(64) T elements[kLength] = {};

  HWY_INLINE Tail(const T* row, std::int64_t first, std::int64_t cols) {
    if (row != nullptr) {
      std::memcpy(elements, row + first, static_cast<std::size_t>(cols - first) * sizeof(T));
    }
  }
};

template <class T>
HWY_INLINE void copy_tail(const T* from, T* row, std::int64_t first, std::int64_t cols) {
  if (row != nullptr) {
    std::memcpy(row + first, from, static_cast<std::size_t>(cols - first) * sizeof(T));
  }
}

// Prefetches a run of the next row while this one is written. Forward, bf16 1024x4096, one
// thread with AVX-512 on a machine that ran builds too, medians of three runs: 15.1 GB/s against
// 11.3 GB/s without.
template <class T>
HWY_INLINE void prefetch_run(const T* row, std::int64_t first) {
  if (row == nullptr) return;
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t c = 0; c < kRun; c += kLine) __builtin_prefetch(row + first + c, 0, 2);
}

template <class Lanes>
HWY_INLINE void store_run(hn::Vec<F32> low, hn::Vec<F32> high, typename Lanes::Storage* to,
                          bool stream) {
  if (stream) {
    Lanes::stream(low, to);
    Lanes::stream(high, to + kLanes);
  } else {
    Lanes::store(low, to);
    Lanes::store(high, to + kLanes);
  }
}

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

}  // namespace rms_norm_rows

// By dtype: f32, f16, bf16.
extern const RmsNormKernels kRmsNormKernels[3];
const RmsNormKernels kRmsNormKernels[3] = {
    {rms_norm_rows::norm_row<EncodeF32>, rms_norm_rows::backward_row<EncodeF32>},
    {rms_norm_rows::norm_row<EncodeF16>, rms_norm_rows::backward_row<EncodeF16>},
    {rms_norm_rows::norm_row<EncodeBf16>, rms_norm_rows::backward_row<EncodeBf16>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const RmsNormKernels& rms_norm_kernels(Dtype dtype, InstructionSet instructions) {
  const RmsNormKernels* kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kRmsNormKernels : N_AVX2::kRmsNormKernels;
  return kernels[kernel_index(dtype)];
}

}  // namespace octet
#endif
