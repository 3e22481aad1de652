// Numbers chosen so that every step is exact, against plain arithmetic.
#include "core/numeric.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace octet {
namespace {

Tensor tensor_of(Dtype dtype, std::initializer_list<std::int64_t> shape,
                 const std::vector<float>& values) {
  Tensor tensor(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_f32(tensor.data(), static_cast<std::int64_t>(i), dtype, values[i]);
  }
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(load_f32(tensor.data(), i, tensor.view().dtype));
  }
  return values;
}

template <class Plan, class Args>
void run_with_workspace(const Plan& plan, const Args& args) {
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
}

using Floats = std::vector<float>;

// The squares of the first row sum to 4 * 4, of the second to 4 * 16: rstd is 1/2 and 1/4.
TEST(RmsNorm, NormsRowsOfSmallIntegersExactly) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    RmsNormProblem problem{.rows = 2, .cols = 4, .dtype = dtype, .eps = 0};
    const Tensor x = tensor_of(dtype, {2, 4}, {2, -2, 2, 2, 4, 4, -4, 4});
    const Tensor g = tensor_of(Dtype::bf16, {4}, {1, 2, 3, -4});
    const Tensor y(dtype, {2, 4});
    const Tensor rstd(Dtype::f32, {2});
    RmsNormForwardArgs args;
    args.x = x;
    args.g = g;
    args.y = y;
    args.rstd = rstd;
    run_with_workspace(plan_rms_norm_forward(problem), args);
    EXPECT_EQ(values_of(y, 8), (Floats{1, -2, 3, -4, 1, 2, -3, -4})) << describe(problem);
    EXPECT_EQ(values_of(rstd, 2), (Floats{0.5f, 0.25f})) << describe(problem);
  }
}

TEST(RmsNorm, AddsTheResidualAndOneToTheWeight) {
  RmsNormProblem problem{.rows = 1, .cols = 2, .eps = 0, .residual = true, .one_plus_weight = true};
  const Tensor x = tensor_of(Dtype::bf16, {1, 2}, {1, 3});
  const Tensor residual = tensor_of(Dtype::bf16, {1, 2}, {3, -7});
  const Tensor g = tensor_of(Dtype::bf16, {2}, {0, 2});
  const Tensor y(Dtype::bf16, {1, 2});
  const Tensor sum(Dtype::bf16, {1, 2});
  const Tensor rstd(Dtype::f32, {1});
  run_with_workspace(plan_rms_norm_forward(problem),
                     RmsNormForwardArgs{x, residual, g, y, {}, sum, rstd});
  EXPECT_EQ(values_of(sum, 2), (Floats{4, -4}));
  EXPECT_EQ(values_of(y, 2), (Floats{1, -3}));
  EXPECT_EQ(values_of(rstd, 1), (Floats{0.25f}));
}

// t = dy * g; k = sum(t * h) / 4 * rstd^2 = 1 for the first row and 0 for the second.
TEST(RmsNorm, GivesTheGradientsOfSmallIntegersExactly) {
  RmsNormProblem problem{.rows = 2, .cols = 4, .dtype = Dtype::f32};
  const Tensor dy = tensor_of(Dtype::f32, {2, 4}, {4, 1, 2, 1, 1, 1, 1, 1});
  const Tensor h = tensor_of(Dtype::f32, {2, 4}, {2, 2, 2, 2, 4, -4, 4, -4});
  const Tensor g = tensor_of(Dtype::bf16, {4}, {1, 1, 1, 1});
  const Tensor rstd = tensor_of(Dtype::f32, {2}, {0.5f, 0.25f});
  const Tensor dsum = tensor_of(Dtype::f32, {2, 4}, {10, 20, 30, 40, 50, 60, 70, 80});
  const Tensor dx(Dtype::f32, {2, 4});
  const Tensor dresidual(Dtype::f32, {2, 4});
  const Tensor dg(Dtype::f32, {4});
  run_with_workspace(plan_rms_norm_backward(problem),
                     RmsNormBackwardArgs{dy, h, g, rstd, dsum, dx, dresidual, dg});
  const Floats wanted{11, 19.5f, 30, 39.5f, 50.25f, 60.25f, 70.25f, 80.25f};
  EXPECT_EQ(values_of(dx, 8), wanted);
  EXPECT_EQ(values_of(dresidual, 8), wanted);
  EXPECT_EQ(values_of(dg, 4), (Floats{5, 0, 3, 0}));
}

TEST(RmsNorm, ClearsTheGradientOfTheWeightWhereThereAreNoRows) {
  RmsNormProblem problem;
  problem.cols = 3;
  const Tensor g = tensor_of(Dtype::bf16, {3}, {1, 1, 1});
  const Tensor dg = tensor_of(Dtype::f32, {3}, {7, 7, 7});
  TensorView none;
  none.dtype = Dtype::bf16;
  none.rank = 2;
  none.shape = {0, 3};
  none.strides = {3, 1};
  TensorView no_rstd;
  no_rstd.rank = 1;
  no_rstd.strides = {1};
  RmsNormForwardArgs forward;
  forward.x = forward.y = none;
  forward.g = g;
  forward.rstd = no_rstd;
  run_with_workspace(plan_rms_norm_forward(problem), forward);
  RmsNormBackwardArgs backward;
  backward.dy = backward.h = backward.dx = none;
  backward.g = g;
  backward.rstd = no_rstd;
  backward.dg = dg;
  run_with_workspace(plan_rms_norm_backward(problem), backward);
  EXPECT_EQ(values_of(dg, 3), (Floats{0, 0, 0}));
}

}  // namespace
}  // namespace octet
