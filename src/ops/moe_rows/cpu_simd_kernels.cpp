// One row at a time: whole pieces of two vectors, and a scalar tail of the same operations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/moe_rows/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/numeric.hpp"
#include "ops/moe_rows/cpu_steps.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"
#include "cpu/tree_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace moe_rows {

inline constexpr int kTreeLevels = 4;
inline constexpr int kLanes = static_cast<int>(HWY_LANES(float));
inline constexpr std::int64_t kPiece = 2 * kLanes;
inline constexpr std::int64_t kTree = std::int64_t{kLanes} << kTreeLevels;

void copy_row(const void* from, std::int64_t bytes, void* to, bool stream) {
  if (!stream) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* source = static_cast<const std::uint8_t*>(from);
  auto* target = static_cast<std::uint8_t*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, source + i), d, target + i);
  std::memcpy(target + i, source + i, static_cast<std::size_t>(bytes - i));
}

// The dtype that `Lanes` loads and stores, for the tails.
template <class Lanes>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<Lanes, EncodeF32>) return Dtype::f32;
  if constexpr (std::is_same_v<Lanes, EncodeF16>) return Dtype::f16;
  return Dtype::bf16;
}

template <class Lanes>
HWY_INLINE void store_piece(hn::Vec<F32> low, hn::Vec<F32> high, typename Lanes::Storage* to,
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
void scale_row(const void* from, float weight, std::int64_t cols, void* to, bool stream) {
  using T = typename Lanes::Storage;
  const auto factor = hn::Set(F32(), weight);
  std::int64_t c = 0;
  for (; c + kPiece <= cols; c += kPiece) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Lanes::load(static_cast<const T*>(from) + c, low, high);
    store_piece<Lanes>(hn::Mul(factor, low), hn::Mul(factor, high), static_cast<T*>(to) + c,
                       stream);
  }
  constexpr Dtype kDtype = dtype_of<Lanes>();
  for (; c < cols; ++c) store_f32(to, c, kDtype, weight * load_f32(from, c, kDtype));
}

template <class Lanes, bool kWeighted>
void sum_rows(const void* const* rows, const float* weights, std::int64_t count, std::int64_t cols,
              void* to, bool stream) {
  using T = typename Lanes::Storage;
  std::int64_t c = 0;
  for (; c + kPiece <= cols; c += kPiece) {
    auto sum_low = hn::Zero(F32());
    auto sum_high = hn::Zero(F32());
    for (std::int64_t k = 0; k < count; ++k) {
      hn::Vec<F32> low;
      hn::Vec<F32> high;
      Lanes::load(static_cast<const T*>(rows[k]) + c, low, high);
      if constexpr (kWeighted) {
        const auto weight = hn::Set(F32(), weights[k]);
        sum_low = hn::MulAdd(weight, low, sum_low);
        sum_high = hn::MulAdd(weight, high, sum_high);
      } else {
        sum_low = hn::Add(sum_low, low);
        sum_high = hn::Add(sum_high, high);
      }
    }
    store_piece<Lanes>(sum_low, sum_high, static_cast<T*>(to) + c, stream);
  }
  constexpr Dtype kDtype = dtype_of<Lanes>();
  for (; c < cols; ++c) {
    float sum = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const float value = load_f32(rows[k], c, kDtype);
      sum = kWeighted ? std::fma(weights[k], value, sum) : sum + value;
    }
    store_f32(to, c, kDtype, sum);
  }
}

template <class Lanes>
void sum_rows_of(const void* const* rows, const float* weights, std::int64_t count,
                 std::int64_t cols, void* to, bool stream) {
  if (weights != nullptr) {
    sum_rows<Lanes, true>(rows, weights, count, cols, to, stream);
  } else {
    sum_rows<Lanes, false>(rows, weights, count, cols, to, stream);
  }
}

// The last elements of a row, zero-filled to a tree.
template <class T>
struct LastTree {
  alignas(64) T elements[kTree] = {};

  HWY_INLINE LastTree(const T* from, std::int64_t count) {
    std::memcpy(elements, from, static_cast<std::size_t>(count) * sizeof(T));
  }
};

template <class Lanes>
float dot_rows(const void* a_row, const void* b_row, std::int64_t cols) {
  using T = typename Lanes::Storage;
  const auto* a = static_cast<const T*>(a_row);
  const auto* b = static_cast<const T*>(b_row);
  VectorTreeSum products;
  const auto add_tree = [&](const T* a_from, const T* b_from) HWY_ATTR {
    products.add(join_leaves<kTreeLevels>(
        [=](int leaf, hn::Vec<F32>& low, hn::Vec<F32>& high) HWY_ATTR {
          hn::Vec<F32> b_low;
          hn::Vec<F32> b_high;
          Lanes::load(a_from + leaf * kLanes, low, high);
          Lanes::load(b_from + leaf * kLanes, b_low, b_high);
          low = hn::Mul(low, b_low);
          high = hn::Mul(high, b_high);
        },
        0));
  };
  std::int64_t c = 0;
  for (; c + kTree <= cols; c += kTree) add_tree(a + c, b + c);
  if (c < cols) {
    const LastTree<T> a_last(a + c, cols - c);
    const LastTree<T> b_last(b + c, cols - c);
    add_tree(a_last.elements, b_last.elements);
  }
  return products.sum();
}

template <class Lanes>
constexpr MoeRowKernels kernels_of() {
  return {copy_row, scale_row<Lanes>, sum_rows_of<Lanes>, dot_rows<Lanes>};
}

}  // namespace moe_rows

// By dtype: f32, f16, bf16.
extern const MoeRowKernels kMoeRowKernels[3];
const MoeRowKernels kMoeRowKernels[3] = {
    moe_rows::kernels_of<EncodeF32>(),
    moe_rows::kernels_of<EncodeF16>(),
    moe_rows::kernels_of<EncodeBf16>(),
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const MoeRowKernels& moe_row_kernels(Dtype dtype, InstructionSet instructions) {
  const MoeRowKernels* kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kMoeRowKernels : N_AVX2::kMoeRowKernels;
  return kernels[kernel_index(dtype)];
}

}  // namespace octet
#endif
