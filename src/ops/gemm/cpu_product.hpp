// One product as the CPU's implementations read it: lines along a contraction that is cut into
// slices of 128, of mx operands into slices of 32. gemm is one of them, grouped_gemm is one per group.
#pragma once

#include "core/block_scales.hpp"

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// Where the elements of an operand lie. Strides are in elements.
struct OperandLines {
  const void* values = nullptr;  // element 0 of line 0
  Dtype dtype = Dtype::f32;
  std::int64_t lines = 0;
  std::int64_t line_stride = 0;
  std::int64_t k_stride = 0;      // inside a run of 128
  std::int64_t slice_stride = 0;  // from one run to the next: 128 * k_stride in a matrix
  std::int64_t slice = kBlock;    // of the contraction, with one scale per line
  const void* scales = nullptr;   // of line 0 and slice 0; null: no scales of slices
  Dtype scale_dtype = Dtype::f32;
  std::int64_t lines_per_scale = 0;
  std::int64_t scale_line_stride = 0;
  std::int64_t scale_slice_stride = 0;
  const float* end_scales = nullptr;  // of whole lines, applied at the end; null: none
  std::int64_t end_scale_stride = 0;  // 0: all lines have the same

  std::int64_t offset(std::int64_t line, std::int64_t k) const {
    return line * line_stride + k / kBlock * slice_stride + k % kBlock * k_stride;
  }
  float scale(std::int64_t line, std::int64_t slice_index) const {
    if (scales == nullptr) return 1;
    return load_scale(scales,
                      line / lines_per_scale * scale_line_stride + slice_index * scale_slice_stride,
                      scale_dtype);
  }
  float end_scale(std::int64_t line) const { return end_scales[line * end_scale_stride]; }
};

// The lines of a matrix [lines, K].
OperandLines lines_of(const QuantizedView& matrix);

struct CpuProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  OperandLines a;     // [M, K]
  OperandLines b;     // [N, K]
  TensorView d;       // [M, N], columns contiguous
  TensorView bias{};  // [N]; no data: none
  bool accumulate = false;

  // Whether the result is (acc * sa) * sb.
  bool has_end_scales() const { return a.end_scales != nullptr; }

  // Both operands are cut alike.
  std::int64_t slice() const { return a.slice; }

  // True if both operands have a scale per line and slice of 128: fma(slice * sa, sb, acc).
  // Otherwise fma(slice, sa * sb, acc).
  bool scales_one_by_one() const {
    return a.lines_per_scale == 1 && b.lines_per_scale == 1 && a.slice == kBlock;
  }
};

// What is known of the products of one run before it: bounds of the largest, and how many there are.
struct ProductBounds {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t products = 1;
  std::int64_t rows = m;  // of all products together
  std::int64_t slice = kBlock;
};

// The frozen arithmetic, one output at a time.
void run_reference_product(const CpuProduct& product, int threads);

}  // namespace octet
