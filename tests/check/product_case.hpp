// A product with its operands, before and after quantisation, and a correct output for tests to
// corrupt.
#pragma once

#include "check/data/random.hpp"
#include "check/judge/judge.hpp"
#include "check/judge/trial.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/quantize_oracle.hpp"
#include "support/gates.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace octet {

struct ProductShape {
  std::int64_t m = 256;
  std::int64_t n = 384;
  std::int64_t k = 512;
};

// Every kind of output that has gates of its own.
struct ProductKind {
  const char* name;
  Dtype out;
  Distribution distribution;
  BlockShape b_block;
  // The gates that fail when one scale of a, or of b, is replaced by its neighbour's.
  const char* failed_with_scale_of_a = "G2 G3";
  const char* failed_with_scale_of_b = "G2 G3";
};

inline TensorView operator+(const TensorView& view, std::int64_t elements) {
  TensorView result = view;
  result.data = static_cast<char*>(view.data) + elements * size_bytes(view.dtype);
  return result;
}

struct ProductCase {
  ProductShape shape;
  Tensor a;  // bf16 [M, K]
  Tensor b;  // bf16 [N, K]
  QuantizedTensor qa;
  QuantizedTensor qb;
  Tensor out;

  ProductCase(const ProductShape& shape_, Dtype out_dtype, Distribution distribution,
              BlockShape b_block = kBlock128x128, std::uint64_t seed = 1)
      : shape(shape_),
        a(Dtype::bf16, {shape.m, shape.k}),
        b(Dtype::bf16, {shape.n, shape.k}),
        out(out_dtype, {shape.m, shape.n}) {
    fill_random(a, distribution, {seed, 0}, 2);
    fill_random(b, distribution, {seed, 1}, 2);
    qa = quantized(a, kBlock1x128);
    qb = quantized(b, b_block);
    multiply(qa, qb, out);
  }

  static QuantizedTensor quantized(const Tensor& matrix, BlockShape block,
                                   Dtype format = Dtype::e4m3) {
    return in_our_layout(quantize_oracle(matrix, {format, block}, 2).view());
  }
  // Computes out = left right^T with the operator.
  void multiply(const QuantizedView& left, const QuantizedView& right, const TensorView& to) const {
    GemmProblem problem{.m = shape.m, .n = shape.n, .k = shape.k};
    problem.a.dtype = left.values.dtype;
    problem.a.block = left.block;
    problem.b.block = right.block;
    problem.out_dtype = to.dtype;
    const GemmPlan plan = plan_gemm(problem);
    const Buffer workspace(plan.workspace_bytes);
    run(plan, {left, right, to}, {workspace.data(), workspace.bytes()});
  }
  std::vector<GateResult> judge(const TensorView& given, const JudgeOptions& options = {}) const {
    return judge_kernel("d", {given, qa, qb}, options);
  }
};

// A copy of a matrix that a test may corrupt.
inline Tensor copy_of(const Tensor& matrix) {
  Tensor copy(matrix.view().dtype, {matrix.view().rows(), matrix.view().cols()});
  std::memcpy(copy.data(), matrix.data(), matrix.bytes());
  return copy;
}

inline void set_element(const TensorView& matrix, std::int64_t row, std::int64_t col,
                        double value) {
  store_f32(matrix.data, row * matrix.strides[0] + col * matrix.strides[1], matrix.dtype,
            static_cast<float>(value));
}

inline void clear_rectangle(const TensorView& matrix, std::int64_t row, std::int64_t rows,
                            std::int64_t col, std::int64_t cols) {
  for (std::int64_t r = row; r < row + rows; ++r) {
    for (std::int64_t c = col; c < col + cols; ++c) set_element(matrix, r, c, 0);
  }
}

// The gates that failed, in order: "G2 G3".
inline std::string failed_gates(const std::vector<GateResult>& results) {
  std::string failed;
  for (const GateResult& result : results) {
    if (!result.pass) failed += (failed.empty() ? "" : " ") + result.gate;
  }
  return failed;
}

}  // namespace octet
