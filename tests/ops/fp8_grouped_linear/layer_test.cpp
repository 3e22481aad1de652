// A grouped layer is fp8_linear on the rows of each group alone, in every bit.
#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "core/views.hpp"
#include "support/refusal.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace octet {
namespace {

using Sizes = std::vector<std::int64_t>;

Tensor random_tensor(Dtype dtype, std::initializer_list<std::int64_t> shape, std::uint64_t seed) {
  Tensor tensor(dtype, shape);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) store_f32(tensor.data(), i, dtype, normal(random));
  return tensor;
}

Tensor make_table(const Sizes& sizes, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  run(plan_group_table({.groups = groups, .rows = rows, .sizes_dtype = Dtype::i64}),
      {make_view(sizes.data(), Dtype::i64, {groups}), table});
  return table;
}

std::vector<char> bytes_of(const TensorView& dense) {
  std::int64_t bytes = size_bytes(dense.dtype);
  for (int i = 0; i < dense.rank; ++i) bytes *= dense.shape[static_cast<std::size_t>(i)];
  const auto* data = static_cast<const char*>(dense.data);
  return {data, data + bytes};
}

Tensor copy_of(const TensorView& dense) {
  Tensor copy(dense.dtype, {dense.shape[0], dense.shape[1]});
  std::memcpy(copy.data(), dense.data, copy.bytes());
  return copy;
}

struct Tensors {
  Tensor x, w, dy, y, dx, dw, table;
  std::vector<Tensor> old_dw;

  Tensors(const Fp8GroupedLinearProblem& p, const Sizes& sizes)
      : x(random_tensor(p.dtype, {p.rows, p.k}, 1)),
        w(random_tensor(p.dtype, {p.groups, p.n, p.k}, 2)),
        dy(random_tensor(p.dtype, {p.rows, p.n}, 3)),
        y(random_tensor(p.dtype, {p.rows, p.n}, 4)),
        dx(random_tensor(p.dtype, {p.rows, p.k}, 5)),
        dw(random_tensor(p.dw_dtype, {p.groups, p.n, p.k}, 6)),
        table(make_table(sizes, p.rows)) {
    for (std::int64_t g = 0; g < p.groups; ++g) old_dw.push_back(copy_of(matrix_of(dw.view(), g)));
  }
};

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
  dense.amax_floor = p.amax_floor;
  dense.pow2_scales = p.pow2_scales;
  return dense;
}

void expect_dense_layers(const Fp8GroupedLinearProblem& p, const Sizes& sizes, Tensors& tensors) {
  std::int64_t row = 0;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const std::int64_t m = sizes[static_cast<std::size_t>(g)];
    const Tensor& dw = tensors.old_dw[static_cast<std::size_t>(g)];
    if (m == 0) {
      if (!p.accumulate_dw) std::memset(dw.data(), 0, dw.bytes());
      EXPECT_EQ(bytes_of(matrix_of(tensors.dw.view(), g)), bytes_of(dw)) << "empty group " << g;
      continue;
    }
    const Tensor y(p.dtype, {m, p.n});
    const Tensor dx(p.dtype, {m, p.k});
    Fp8Linear layer(dense_of(p, m));
    layer.forward(rows_of(tensors.x.view(), row, m), matrix_of(tensors.w.view(), g), y);
    layer.backward(rows_of(tensors.dy.view(), row, m), dx, dw);
    EXPECT_EQ(bytes_of(rows_of(tensors.y.view(), row, m)), bytes_of(y)) << "y of group " << g;
    EXPECT_EQ(bytes_of(rows_of(tensors.dx.view(), row, m)), bytes_of(dx)) << "dx of group " << g;
    EXPECT_EQ(bytes_of(matrix_of(tensors.dw.view(), g)), bytes_of(dw)) << "dw of group " << g;
    row += m;
  }
}

const Sizes kSizes{0, 1, 127, 128, 129, 40};
constexpr std::int64_t kRows = 460;  // 35 behind the last group

Fp8GroupedLinearProblem problem_of(std::int64_t n, std::int64_t k) {
  Fp8GroupedLinearProblem problem;
  problem.groups = static_cast<std::int64_t>(kSizes.size());
  problem.rows = kRows;
  problem.n = n;
  problem.k = k;
  return problem;
}

void expect_equal_to_dense(const Fp8GroupedLinearProblem& problem) {
  SCOPED_TRACE(describe(problem));
  Tensors tensors(problem, kSizes);
  const std::vector<char> y_before = bytes_of(tensors.y);
  Fp8GroupedLinear layer(problem);
  layer.forward(tensors.x, tensors.w, tensors.table, tensors.y);
  layer.backward(tensors.dy, tensors.table, tensors.dx, tensors.dw);
  const std::size_t tail = static_cast<std::size_t>(35 * problem.n * size_bytes(problem.dtype));
  const std::vector<char> y = bytes_of(tensors.y);
  for (std::size_t i = y.size() - tail; i < y.size(); ++i) {
    ASSERT_EQ(y[i], problem.tail == GroupTail::zero ? 0 : y_before[i]) << "byte " << i << " of y";
  }
  expect_dense_layers(problem, kSizes, tensors);
}

TEST(Fp8GroupedLinear, EqualsTheDenseLayerOfEachGroup) {
  Fp8GroupedLinearProblem problem = problem_of(136, 200);
  expect_equal_to_dense(problem);
  problem.wgrad_blocks = WgradBlocks::square;
  problem.dw_dtype = Dtype::f32;
  problem.accumulate_dw = true;
  problem.tail = GroupTail::untouched;
  expect_equal_to_dense(problem);
  problem = problem_of(67, 129);
  problem.dtype = Dtype::f16;
  problem.grad_format = Dtype::e5m2;
  problem.pow2_scales = true;
  expect_equal_to_dense(problem);
  problem.dtype = problem.dw_dtype = Dtype::f32;
  problem.wgrad_blocks = WgradBlocks::square;
  problem.amax_floor = 1e-4f;
  expect_equal_to_dense(problem);
}

// Weights that were quantised ahead of time, and only one of the gradients.
TEST(Fp8GroupedLinear, TakesQuantisedWeights) {
  Fp8GroupedLinearProblem problem = problem_of(136, 200);
  const Tensors wanted(problem, kSizes);
  Fp8GroupedLinear layer(problem);
  layer.forward(wanted.x, wanted.w, wanted.table, wanted.y);
  layer.backward(wanted.dy, wanted.table, wanted.dx, wanted.dw);

  problem.weights_quantized = true;
  problem.need_dw = false;
  const Tensors given(problem, kSizes);
  const Fp8GroupedLinearWeightsLayout layout = fp8_grouped_linear_weights_layout(problem);
  const QuantizedTensor w(layout.w);
  const QuantizedTensor w_t(layout.w_t);
  QuantizeProblem cast{.rows = problem.n, .cols = problem.k, .batch = problem.groups};
  cast.block = cast.transposed_block = kBlock128x128;
  run(plan_quantize(cast), {given.w, w, w_t});
  EXPECT_EQ(fp8_grouped_linear_saved_layout(problem).x_t.bytes, 0u);
  EXPECT_EQ(fp8_grouped_linear_saved_layout(problem).w_t.bytes, 0u);
  const auto forward = plan_fp8_grouped_linear_forward(problem);
  const auto backward = plan_fp8_grouped_linear_backward(problem);
  const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
  Fp8GroupedLinearForwardArgs f;
  f.x = given.x;
  f.weights = {w, w_t};
  f.y = given.y;
  f.table = given.table;
  run(forward, f, {workspace.data(), workspace.bytes()});
  Fp8GroupedLinearBackwardArgs b;
  b.dy = given.dy;
  b.saved.w_t = w_t;
  b.dx = given.dx;
  b.table = given.table;
  run(backward, b, {workspace.data(), workspace.bytes()});
  EXPECT_EQ(bytes_of(given.y), bytes_of(wanted.y));
  EXPECT_EQ(bytes_of(given.dx), bytes_of(wanted.dx));
}

TEST(Fp8GroupedLinear, RefusesWhatItCannotRun) {
  const auto refused = [](const auto& change, ErrorCode code = ErrorCode::invalid_argument) {
    Fp8GroupedLinearProblem problem = problem_of(16, 32);
    change(problem);
    return refusal([&] { plan_fp8_grouped_linear_backward(problem); }, code);
  };
  EXPECT_EQ(refused([](auto& p) { p.groups = 0; }),
            "fp8_grouped_linear: groups must be 1 to 1024, got 0");
  EXPECT_EQ(refused([](auto& p) { p.n = 0; }), "fp8_grouped_linear: N must be at least 1, got 0");
  EXPECT_EQ(refused([](auto& p) { p.expected_rows = 461; }),
            "fp8_grouped_linear: expected_rows must be 0 to rows = 460, got 461");
  EXPECT_EQ(refused([](auto& p) { p.tail = static_cast<GroupTail>(9); }),
            "fp8_grouped_linear: tail must be zero or untouched, got 9");
  EXPECT_EQ(refused([](auto& p) { p.training = false; }),
            "fp8_grouped_linear: backward needs training = true and need_dx or need_dw = true");
  EXPECT_EQ(refused(
                [](auto& p) {
                  p.accumulate_dw = true;
                  p.dw_dtype = Dtype::f16;
                },
                ErrorCode::unsupported),
            "fp8_grouped_linear: accumulate_dw needs an f32 or bf16 dw, got f16");
}

TEST(Fp8GroupedLinear, RefusesBadTensors) {
  const Fp8GroupedLinearProblem problem = problem_of(16, 32);
  const Tensors tensors(problem, kSizes);
  Fp8GroupedLinear layer(problem);
  const auto forward = [&](TensorView w, TensorView table) {
    return refusal([&] { layer.forward(tensors.x, w, table, tensors.y); });
  };
  TensorView fewer = tensors.w;
  fewer.shape[0] = 5;
  EXPECT_EQ(forward(fewer, tensors.table),
            "fp8_grouped_linear_forward: w must be [groups, N, K] = [6, 16, 32], got [5, 16, 32]");
  TensorView shorter = tensors.table;
  shorter.shape[0] -= 1;
  EXPECT_EQ(forward(tensors.w, shorter).substr(0, 48),
            "fp8_grouped_linear_forward: table must be [group");
  EXPECT_EQ(refusal([&] { layer.backward(tensors.dy, tensors.table, tensors.dx, tensors.dw); }),
            "fp8_grouped_linear_backward: no forward of this layer has run before it");
  EXPECT_EQ(refusal([&] {
              Fp8GroupedLinearProblem inference = problem;
              inference.training = false;
              Fp8GroupedLinear{inference};
            }),
            "fp8_grouped_linear: Fp8GroupedLinear needs training = true and weights_quantized = "
            "false, got false and false; plan_fp8_grouped_linear_forward() takes the others");
}

}  // namespace
}  // namespace octet
