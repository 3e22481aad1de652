// Rows of dy added to f32 sums, compiled once for AVX2 and once for AVX-512. Every column is a lane
// of its own: the additions are the scalar ones.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fp8_linear/bias_gradient_simd.cpp"
#include "cpu/instruction_set.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/numeric.hpp"
#include "ops/fp8_linear/bias_gradient.hpp"

#if OCTET_SIMD_TARGET
#include "cpu/decode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace {

constexpr F32 kF32;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(kF32));
constexpr std::int64_t kPair = 2 * kLanes;  // what a decoder reads at a time

template <class Decode>
void add_rows_as(const RowsToAdd& task) {
  const TensorView& dy = *task.dy;
  for (std::int64_t row = task.row; row < task.row + task.rows; ++row) {
    const auto* from =
        static_cast<const typename Decode::Storage*>(dy.data) + row * dy.strides[0] + task.col;
    std::int64_t c = 0;
    for (; c + kPair <= task.cols; c += kPair) {
      float* sums = task.sums + c;
      hn::Vec<F32> low;
      hn::Vec<F32> high;
      Decode::load(from + c, low, high);
      hn::StoreU(hn::Add(hn::LoadU(kF32, sums), low), kF32, sums);
      hn::StoreU(hn::Add(hn::LoadU(kF32, sums + kLanes), high), kF32, sums + kLanes);
    }
    for (; c < task.cols; ++c) task.sums[c] += load_f32(from, c, dy.dtype);
  }
}

}  // namespace

void add_rows(const RowsToAdd& task) {
  switch (task.dy->dtype) {
    case Dtype::f32: return add_rows_as<DecodeF32>(task);
    case Dtype::f16: return add_rows_as<DecodeF16>(task);
    case Dtype::bf16: return add_rows_as<DecodeBf16>(task);
    default: return;
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

void add_rows_avx2(const RowsToAdd& rows) { N_AVX2::add_rows(rows); }
void add_rows_avx512(const RowsToAdd& rows) { N_AVX3::add_rows(rows); }

}  // namespace octet
#endif
