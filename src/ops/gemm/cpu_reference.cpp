// The frozen arithmetic, one output at a time: slices of 128 along K, or 32 with mx blocks, each a
// chain of f32 FMAs, promoted with the scales of its blocks in slice order. Scales of whole rows are applied at the end.
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "ops/gemm/cpu_product.hpp"
#include "ops/gemm/problem.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

float element(const OperandLines& operand, std::int64_t line, std::int64_t k) {
  return load_f32(operand.values, operand.offset(line, k), operand.dtype);
}

float contraction(const CpuProduct& product, std::int64_t m, std::int64_t n) {
  float acc = 0;
  const std::int64_t length = product.slice();
  for (std::int64_t slice = 0; slice * length < product.k; ++slice) {
    const std::int64_t k_end = std::min((slice + 1) * length, product.k);
    float sum = 0;
    for (std::int64_t k = slice * length; k < k_end; ++k) {
      sum = std::fma(element(product.a, m, k), element(product.b, n, k), sum);
    }
    const float sa = product.a.scale(m, slice);
    const float sb = product.b.scale(n, slice);
    acc = product.scales_one_by_one() ? std::fma(sum * sa, sb, acc) : std::fma(sum, sa * sb, acc);
  }
  return acc;
}

void run_reference(const GemmProblem& problem, const GemmArgs& args, const RunContext& context) {
  run_reference_product(cpu_product(problem, args), context.threads);
}

}  // namespace

OperandLines lines_of(const QuantizedView& matrix) {
  const TensorView& values = matrix.values;
  OperandLines lines;
  lines.values = values.data;
  lines.dtype = values.dtype;
  lines.lines = values.rows();
  lines.line_stride = values.strides[0];
  lines.k_stride = values.cols() == 1 ? 1 : values.strides[1];  // one element is contiguous
  // The stride of a short line may be anything.
  lines.slice_stride = values.cols() > kBlock ? kBlock * lines.k_stride : 0;
  if (matrix.scales.data == nullptr) return lines;
  if (is_whole_row(matrix.block)) {
    lines.end_scales = static_cast<const float*>(matrix.scales.data);
    lines.end_scale_stride = matrix.block == kWholeTensor ? 0 : matrix.scales.strides[0];
    return lines;
  }
  if (is_mx(matrix.block)) lines.slice = kMxBlock;
  lines.scales = matrix.scales.data;
  lines.scale_dtype = matrix.scales.dtype;
  lines.lines_per_scale = matrix.block.rows;
  lines.scale_line_stride = matrix.scales.strides[0];
  lines.scale_slice_stride = matrix.scales.strides[1];
  return lines;
}

void run_reference_product(const CpuProduct& product, int threads) {
  const Dtype out = product.d.dtype;
  parallel_for(threads, product.m, [&](std::int64_t m) {
    for (std::int64_t n = 0; n < product.n; ++n) {
      const std::int64_t index = m * product.d.strides[0] + n;
      float result = contraction(product, m, n);
      if (product.has_end_scales()) {
        result = result * product.a.end_scale(m) * product.b.end_scale(n);
      }
      if (product.bias.data != nullptr) {
        result += load_f32(product.bias.data, n, product.bias.dtype);
      }
      if (product.accumulate) result += load_f32(product.d.data, index, out);
      store_f32(product.d.data, index, out, result);
    }
  });
}

constinit const GemmImplementation kGemmCpuReference =
    cpu_reference<GemmProblem, GemmArgs, run_reference>();

}  // namespace octet
