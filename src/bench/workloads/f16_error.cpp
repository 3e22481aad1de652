// The error of an f16 product, as a yardstick for the error of an FP8 product.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "dispatch/machine.hpp"

#include <octet/ops/gemm.hpp>

#include <algorithm>
#include <cmath>

namespace octet::bench {
namespace {

// Evenly spaced rows of a matrix, as they are and in f16.
struct SampledRows {
  std::int64_t cols = 0;
  std::vector<double> exact;  // [rows, cols]
  Tensor rounded;             // [rows, cols] f16
};

std::int64_t row_bytes(const TensorView& matrix) {
  return matrix.strides[0] * size_bytes(matrix.dtype);
}

SampledRows sample_rows(const TensorView& matrix, std::int64_t most) {
  const std::int64_t rows = std::min(matrix.rows(), most);
  const std::int64_t cols = matrix.cols();
  SampledRows sample{cols, std::vector<double>(static_cast<std::size_t>(rows * cols)),
                     Tensor(Dtype::f16, {rows, cols})};
  const Tensor row(matrix.dtype, {1, cols});
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t source = matrix.rows() / rows * r;
    copy_bytes(row.data(), static_cast<const char*>(matrix.data) + source * row_bytes(matrix),
               row.bytes(), matrix.device);
    for (std::int64_t c = 0; c < cols; ++c) {
      const float value = load_f32(row.data(), c, matrix.dtype);
      sample.exact[static_cast<std::size_t>(r * cols + c)] = value;
      store_f32(sample.rounded.data(), r * cols + c, Dtype::f16, value);
    }
  }
  return sample;
}

Tensor filled(const Fp8LinearProblem& layer, std::int64_t rows, const DataOptions& options,
              std::uint32_t stream) {
  Tensor tensor(layer.dtype, {rows, layer.k}, layer.device);
  fill_input(tensor, options, stream);
  return tensor;
}

double dot(const double* a, const double* b, std::int64_t k) {
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < k; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

double f16_product_snr_db(const Fp8LinearProblem& layer, const DataOptions& options) {
  const SampledRows x = sample_rows(filled(layer, layer.m, options, 0), 64);
  const SampledRows w = sample_rows(filled(layer, layer.n, options, 1), 256);
  GemmProblem problem;
  problem.m = x.rounded.view().rows();
  problem.n = w.rounded.view().rows();
  problem.k = layer.k;
  problem.a = problem.b = {Dtype::f16, {}, Major::k};
  problem.out_dtype = Dtype::f16;
  // Named explicitly, so that a GPU implementation in OCTET_GEMM_BACKEND has no effect.
  const bool simd = this_machine(kCpu, options.threads).avx2;
  const GemmPlan plan = plan_gemm(problem, {simd ? "cpu_simd" : "cpu_reference", options.threads});
  const Buffer workspace(plan.workspace_bytes);
  const Tensor y(Dtype::f16, {problem.m, problem.n});
  run(plan, {x.rounded.view(), w.rounded.view(), y}, {workspace.data(), workspace.bytes()});

  std::vector<double> signal(static_cast<std::size_t>(problem.m));
  std::vector<double> noise(signal.size());
  parallel_for(this_machine(kCpu, options.threads).threads, problem.m, [&](std::int64_t m) {
    for (std::int64_t n = 0; n < problem.n; ++n) {
      const double exact = dot(&x.exact[static_cast<std::size_t>(m * layer.k)],
                               &w.exact[static_cast<std::size_t>(n * layer.k)], layer.k);
      const double error = exact - load_f32(y.data(), m * problem.n + n, Dtype::f16);
      signal[static_cast<std::size_t>(m)] += exact * exact;
      noise[static_cast<std::size_t>(m)] += error * error;
    }
  });
  double signal_sum = 0;
  double noise_sum = 0;
  for (std::size_t m = 0; m < signal.size(); ++m) {
    signal_sum += signal[m];
    noise_sum += noise[m];
  }
  return 10 * std::log10(signal_sum / noise_sum);
}

}  // namespace octet::bench
