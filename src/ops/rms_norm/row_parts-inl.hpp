// How the row kernels of rms_norm divide a row: whole trees, whole runs, a tail.
// Included once per instruction set.
#if defined(OCTET_OPS_RMS_NORM_ROW_PARTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTET_OPS_RMS_NORM_ROW_PARTS_INL
#undef OCTET_OPS_RMS_NORM_ROW_PARTS_INL
#else
#define OCTET_OPS_RMS_NORM_ROW_PARTS_INL
#endif

#include "cpu/encode_simd-inl.hpp"
#include "cpu/tree_sum-inl.hpp"
#include "ops/rms_norm/cpu_simd.hpp"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rms_norm_rows {

// A tree joins 2^kTreeLevels vectors at a time.
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

}  // namespace octet::HWY_NAMESPACE::rms_norm_rows
HWY_AFTER_NAMESPACE();

#endif
