// The grouped layer on a Hopper GPU: fp8_linear on the rows of each group alone, on the same GPU, in every bit.
#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "core/views.hpp"
#include "support/on_cuda.hpp"

#include <octet/octet.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

namespace octet::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

// A matrix, or a batch of them as one matrix, with random numbers.
Tensor random_on_device(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const Tensor host(dtype, {rows, cols});
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * cols; ++i) store_f32(host.data(), i, dtype, normal(random));
  Tensor device(dtype, {rows, cols}, OnCuda::kDevice);
  copy(host, device);
  return device;
}

Tensor copy_of(const TensorView& matrix) {
  Tensor result(matrix.dtype, {matrix.rows(), matrix.cols()}, OnCuda::kDevice);
  copy(matrix, result);
  return result;
}

std::vector<char> bytes_of(const TensorView& matrix) {
  if (matrix.rows() == 0) return {};
  const Tensor host(matrix.dtype, {matrix.rows(), matrix.cols()});
  copy(matrix, host);
  const auto* data = static_cast<const char*>(host.data());
  return {data, data + host.bytes()};
}

bool all_zero(const std::vector<char>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

Tensor make_table(const Sizes& sizes, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  const Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  run(plan_group_table({.groups = groups, .rows = rows, .sizes_dtype = Dtype::i64}),
      {make_view(sizes.data(), Dtype::i64, {groups}), table});
  Tensor device(Dtype::i32, {group_table_words(groups, rows)}, OnCuda::kDevice);
  copy(table, device);
  return device;
}

TensorView as_batch(const TensorView& matrix, std::int64_t groups) {
  TensorView batch = matrix;
  const std::int64_t rows = matrix.rows() / groups;
  batch.rank = 3;
  batch.shape = {groups, rows, matrix.cols()};
  batch.strides = {rows * matrix.cols(), matrix.cols(), 1};
  return batch;
}

Fp8LinearProblem dense_of(const Fp8GroupedLinearProblem& p, std::int64_t m) {
  Fp8LinearProblem dense;
  dense.m = m;
  dense.n = p.n;
  dense.k = p.k;
  dense.dtype = p.dtype;
  dense.format = p.format;
  dense.grad_format = p.grad_format;
  dense.dw_dtype = p.dw_dtype;
  dense.accumulate_dw = p.accumulate_dw;
  dense.wgrad_blocks = p.wgrad_blocks;
  dense.device = p.device;
  return dense;
}

void expect_dense_layers(Fp8GroupedLinearProblem problem, const Sizes& sizes, std::int64_t tail) {
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  problem.groups = static_cast<std::int64_t>(sizes.size());
  problem.rows = sum + tail;
  problem.device = OnCuda::kDevice;
  const auto& [groups, rows, n, k] = std::tie(problem.groups, problem.rows, problem.n, problem.k);
  SCOPED_TRACE(describe(problem));
  const Tensor x = random_on_device(problem.dtype, rows, k, 1);
  const Tensor w = random_on_device(problem.dtype, groups * n, k, 2);
  const Tensor dy = random_on_device(problem.dtype, rows, n, 3);
  const Tensor y = random_on_device(problem.dtype, rows, n, 4);
  const Tensor dx = random_on_device(problem.dtype, rows, k, 5);
  const Tensor dw = random_on_device(problem.dw_dtype, groups * n, k, 6);
  const Tensor old_dw = copy_of(dw);
  const Tensor table = make_table(sizes, rows);
  Fp8GroupedLinear layer(problem);
  layer.forward(x, as_batch(w, groups), table, y);
  layer.backward(dy, table, dx, as_batch(dw, groups));
  cuda::synchronize(0);

  std::int64_t row = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t m = sizes[static_cast<std::size_t>(group)];
    const TensorView given_dw = rows_of(dw.view(), group * n, n);
    const Tensor wanted_dw = copy_of(rows_of(old_dw.view(), group * n, n));
    if (m == 0) {
      const bool kept = bytes_of(given_dw) == bytes_of(wanted_dw);
      EXPECT_TRUE(problem.accumulate_dw ? kept : all_zero(bytes_of(given_dw)))
          << "dw of empty group " << group;
      continue;
    }
    const Tensor wanted_y(problem.dtype, {m, n}, OnCuda::kDevice);
    const Tensor wanted_dx(problem.dtype, {m, k}, OnCuda::kDevice);
    Fp8Linear alone(dense_of(problem, m));
    alone.forward(rows_of(x.view(), row, m), rows_of(w.view(), group * n, n), wanted_y);
    alone.backward(rows_of(dy.view(), row, m), wanted_dx, wanted_dw);
    cuda::synchronize(0);
    EXPECT_TRUE(bytes_of(rows_of(y.view(), row, m)) == bytes_of(wanted_y)) << "y of " << group;
    EXPECT_TRUE(bytes_of(rows_of(dx.view(), row, m)) == bytes_of(wanted_dx)) << "dx of " << group;
    EXPECT_TRUE(bytes_of(given_dw) == bytes_of(wanted_dw)) << "dw of " << group;
    row += m;
  }
  EXPECT_TRUE(all_zero(bytes_of(rows_of(y.view(), row, rows - row)))) << "y behind the last group";
  EXPECT_TRUE(all_zero(bytes_of(rows_of(dx.view(), row, rows - row)))) << "dx behind it";
}

Fp8GroupedLinearProblem problem_of(std::int64_t n, std::int64_t k, WgradBlocks blocks) {
  Fp8GroupedLinearProblem problem;
  problem.n = n;
  problem.k = k;
  problem.wgrad_blocks = blocks;
  return problem;
}

TEST(Fp8GroupedLinearCuda, EqualsTheLayerOfEachGroup) {
  OCTET_NEEDS_HOPPER();
  const Sizes sizes{0, 1, 127, 128, 129, 700, 0, 40};
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    expect_dense_layers(problem_of(384, 512, blocks), sizes, 35);
    expect_dense_layers(problem_of(200, 304, blocks), sizes, 0);
    Fp8GroupedLinearProblem hybrid = problem_of(256, 640, blocks);
    hybrid.grad_format = Dtype::e5m2;
    hybrid.dw_dtype = Dtype::f32;
    hybrid.accumulate_dw = true;
    expect_dense_layers(hybrid, sizes, 129);
  }
}

TEST(Fp8GroupedLinearCuda, TakesOneGroupWithEverythingAndNone) {
  OCTET_NEEDS_HOPPER();
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    expect_dense_layers(problem_of(256, 384, blocks), {0, 2500, 0}, 0);
    expect_dense_layers(problem_of(256, 384, blocks), {0, 0}, 70);
  }
}

}  // namespace
}  // namespace octet::testing
