// The frozen arithmetic, one output at a time: slices of 128 along K, each a chain of f32 FMAs,
// promoted with the scales of its blocks in slice order.
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "ops/gemm/problem.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

float element(const QuantizedView& operand, std::int64_t row, std::int64_t k) {
  const TensorView& values = operand.values;
  return load_f32(values.data, row * values.strides[0] + k * values.strides[1], values.dtype);
}

float scale(const QuantizedView& operand, std::int64_t row, std::int64_t slice) {
  if (operand.scales.data == nullptr) return 1;
  const TensorView& scales = operand.scales;
  return static_cast<const float*>(
      scales.data)[row / operand.block.rows * scales.strides[0] + slice * scales.strides[1]];
}

float product(const GemmProblem& problem, const GemmArgs& args, std::int64_t m, std::int64_t n) {
  float acc = 0;
  for (std::int64_t slice = 0; slice * kBlock < problem.k; ++slice) {
    const std::int64_t k_end = std::min((slice + 1) * kBlock, problem.k);
    float sum = 0;
    for (std::int64_t k = slice * kBlock; k < k_end; ++k) {
      sum = std::fma(element(args.a, m, k), element(args.b, n, k), sum);
    }
    const float sa = scale(args.a, m, slice);
    const float sb = scale(args.b, n, slice);
    acc = scales_one_by_one(problem) ? std::fma(sum * sa, sb, acc) : std::fma(sum, sa * sb, acc);
  }
  return acc;
}

void run_reference(const GemmProblem& problem, const GemmArgs& args, const RunContext& context) {
  parallel_for(context.threads, problem.m, [&](std::int64_t m) {
    for (std::int64_t n = 0; n < problem.n; ++n) {
      const std::int64_t index = m * args.d.strides[0] + n;
      float result = product(problem, args, m, n);
      if (problem.bias_dtype) result += load_f32(args.bias.data, n, *problem.bias_dtype);
      if (problem.accumulate) result += load_f32(args.d.data, index, problem.out_dtype);
      store_f32(args.d.data, index, problem.out_dtype, result);
    }
  });
}

}  // namespace

constinit const GemmImplementation kGemmCpuReference =
    cpu_reference<GemmProblem, GemmArgs, run_reference>();

}  // namespace octet
