// From the views of a call over groups or a batch to what the kernels take.
#pragma once

#include "core/views.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/experts/cuda_sm90_groups.cuh"

namespace octet::sm90 {

// The first matrix of a batch, with its padding.
inline QuantizedView first_of(const QuantizedView& batch) {
  QuantizedView first = matrix_of(batch, 0);
  first.owns_padding = batch.owns_padding;
  return first;
}

// Scales of consecutive token blocks are neighbours: one line per 128 features.
inline bool has_scale_lines(const QuantizedView& token_blocks) {
  return token_blocks.block == kBlock128x128 && token_blocks.scales.strides[0] == 1;
}

// For an output [rows, cols] over groups. No tile writes padding behind the last row or the last
// token block: fill_scale_padding() does.
inline QuantizeParams group_copies_of(const Fp8Output& fp8, Fp8Copies copies, std::int64_t rows,
                                      std::int64_t cols) {
  const bool lines = fp8.transposed_block && has_scale_lines(copies.transposed);
  if (fp8.transposed_block) copies.transposed = first_of(copies.transposed);
  QuantizeParams params = copies_of(fp8, copies, rows, cols);
  params.out.scale_pitch = 0;
  if (lines) params.transposed.scale_pitch = 0;
  return params;
}

inline GroupParams groups_of(const Fp8Output& fp8, const Fp8Copies& copies, const TensorView& table,
                             std::int64_t groups, std::int64_t rows, GroupTail tail) {
  const GroupTableLayout layout{groups, rows};
  const auto* words = static_cast<const std::int32_t*>(table.data);
  GroupParams params{};
  params.table = reinterpret_cast<const int4*>(words);
  params.tiles = reinterpret_cast<const int4*>(words + layout.tiles_128());
  params.groups = static_cast<std::int32_t>(groups);
  params.rows = static_cast<std::int32_t>(rows);
  params.clear_tail = tail == GroupTail::zero && fp8.block.has_value();
  if (fp8.block && copies.out.owns_padding) params.row_scale_line = copies.out.scales.strides[1];
  if (!fp8.transposed_block) return params;
  const QuantizedView& blocks = copies.transposed;
  params.value_stride = blocks.values.strides[0];
  params.scale_stride = blocks.scales.strides[0];
  params.token_blocks = blocks.values.shape[0];
  if (blocks.owns_padding && has_scale_lines(blocks)) params.scale_line = blocks.scales.strides[1];
  return params;
}

// A cast as a type. with_cast() calls `visit` with one and returns what it returns.
template <Dtype kInput, bool kToE5m2>
struct Cast {
  static constexpr Dtype kDtype = kInput;
  static constexpr bool kE5m2 = kToE5m2;
};

template <class Visit>
auto with_16bit_cast(Dtype input, Dtype format, const Visit& visit) {
  const bool e5m2 = format == Dtype::e5m2;
  if (input == Dtype::bf16) {
    return e5m2 ? visit(Cast<Dtype::bf16, true>()) : visit(Cast<Dtype::bf16, false>());
  }
  return e5m2 ? visit(Cast<Dtype::f16, true>()) : visit(Cast<Dtype::f16, false>());
}

template <class Visit>
auto with_cast(Dtype input, Dtype format, const Visit& visit) {
  if (input != Dtype::f32) return with_16bit_cast(input, format, visit);
  return format == Dtype::e5m2 ? visit(Cast<Dtype::f32, true>()) : visit(Cast<Dtype::f32, false>());
}

}  // namespace octet::sm90
