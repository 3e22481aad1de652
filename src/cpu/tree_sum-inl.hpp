// The sum of core/tree_sum.hpp, a vector of neighbours at a time. Joining two vectors gives the
// sums of pairs, in order: after n levels each lane is the sum of 2^n neighbours, whatever the
// number of lanes. Per-target code: see cpu/instruction_set.hpp.
#if defined(OCTET_CPU_TREE_SUM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_CPU_TREE_SUM_INL_HPP
#undef OCTET_CPU_TREE_SUM_INL_HPP
#else
#define OCTET_CPU_TREE_SUM_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;

HWY_INLINE hn::Vec<F32> join_neighbours(hn::Vec<F32> left, hn::Vec<F32> right) {
  return hn::Add(hn::ConcatEven(F32(), right, left), hn::ConcatOdd(F32(), right, left));
}

// Joins 2^kLevels vectors into one; leaves(i, low, high) provides vectors i and i + 1.
template <int kLevels, class Leaves>
HWY_INLINE hn::Vec<F32> join_leaves(const Leaves& leaves, int first) {
  if constexpr (kLevels == 1) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    leaves(first, low, high);
    return join_neighbours(low, high);
  } else {
    constexpr int kHalf = 1 << (kLevels - 1);
    const auto left = join_leaves<kLevels - 1>(leaves, first);
    return join_neighbours(left, join_leaves<kLevels - 1>(leaves, first + kHalf));
  }
}

// Sums vectors of one level, which are added in order.
class VectorTreeSum {
 public:
  HWY_INLINE void add(hn::Vec<F32> value) {
    int level = 0;
    for (std::uint64_t rest = count_++; rest % 2 == 1; rest /= 2) {
      value = join_neighbours(left_[level++], value);
    }
    left_[level] = value;
  }
  HWY_INLINE float sum() const {
    const auto zero = hn::Zero(F32());
    auto right = zero;
    for (int level = 0; (count_ >> level) != 0; ++level) {
      const bool waits = (count_ >> level) % 2 == 1;
      right = waits ? join_neighbours(left_[level], right) : join_neighbours(right, zero);
    }
    for (std::size_t lanes = hn::Lanes(F32()); lanes > 1; lanes /= 2) {
      right = join_neighbours(right, zero);
    }
    return hn::GetLane(right) + 0.0f;
  }

 private:
  std::uint64_t count_ = 0;
  hn::Vec<F32> left_[64];  // by level, the subtree that waits for its right neighbour
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
