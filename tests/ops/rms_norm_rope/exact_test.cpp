// Rows whose mean square is a power of four, rotated by quarter turns: every result is exact.
#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace octet {
namespace {

Tensor tensor_of(std::initializer_list<std::int64_t> shape, const std::vector<float>& values) {
  Tensor tensor(Dtype::f32, shape);
  std::copy(values.begin(), values.end(), static_cast<float*>(tensor.data()));
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor, std::size_t count) {
  const auto* first = static_cast<const float*>(tensor.data());
  return {first, first + count};
}

template <class Plan, class Args>
void run_with_workspace(const Plan& plan, const Args& args) {
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
}

// One token with two heads of two elements, rotated by a quarter turn: (a, b) -> (-b, a).
RmsNormRopeProblem one_token(NormScope norm) {
  RmsNormRopeProblem problem{.seq = 1,
                             .q_heads = 2,
                             .head_dim = 2,
                             .norm = norm,
                             .dtype = Dtype::f32,
                             .weight_dtype = Dtype::f32,
                             .eps = 0};
  return problem;
}

RotationArgs quarter_turn() {
  static const float kCos[] = {0};
  static const float kSin[] = {1};
  return {make_view(kCos, Dtype::f32, {1, 1}), make_view(kSin, Dtype::f32, {1, 1}), {}};
}

TEST(RmsNormRope, NormsAllHeadsOfATokenTogether) {
  const Tensor q = tensor_of({1, 1, 2, 2}, {2, -2, 2, 2});  // mean square 4
  const Tensor g = tensor_of({4}, {1, 2, 3, 4});
  const Tensor out(Dtype::f32, {1, 1, 2, 2});
  const Tensor rstd(Dtype::f32, {1});
  RmsNormRopeForwardArgs args{q, {}, g, {}, out, {}, rstd, {}, quarter_turn()};
  run_with_workspace(plan_rms_norm_rope_forward(one_token(NormScope::row)), args);
  EXPECT_EQ(values_of(out, 4), (std::vector<float>{2, 1, -4, 3}));
  EXPECT_EQ(values_of(rstd, 1), (std::vector<float>{0.5f}));
}

TEST(RmsNormRope, NormsEachHeadByItselfWithOnePlusTheWeight) {
  RmsNormRopeProblem problem = one_token(NormScope::head);
  problem.one_plus_weight = true;
  const Tensor q = tensor_of({1, 1, 2, 2}, {4, -4, 2, 2});
  const Tensor g = tensor_of({2}, {0, 2});
  const Tensor out(Dtype::f32, {1, 1, 2, 2});
  const Tensor rstd(Dtype::f32, {2});
  RmsNormRopeForwardArgs args{q, {}, g, {}, out, {}, rstd, {}, quarter_turn()};
  run_with_workspace(plan_rms_norm_rope_forward(problem), args);
  EXPECT_EQ(values_of(out, 4), (std::vector<float>{3, 1, -3, 1}));
  EXPECT_EQ(values_of(rstd, 2), (std::vector<float>{0.25f, 0.5f}));
}

TEST(RmsNormRope, GivesTheGradientsOfARow) {
  const Tensor dout = tensor_of({1, 1, 2, 2}, {4, 8, -12, 16});
  const Tensor q = tensor_of({1, 1, 2, 2}, {2, -2, 2, 2});
  const Tensor g = tensor_of({4}, {1, 2, 1, 1});
  const Tensor rstd = tensor_of({1}, {0.5f});
  const Tensor dq(Dtype::f32, {1, 1, 2, 2});
  const Tensor dg(Dtype::f32, {4});
  RmsNormRopeBackwardArgs args{dout, {}, q, {}, g, {}, rstd, {}, dq, {}, dg, {}, quarter_turn()};
  run_with_workspace(plan_rms_norm_rope_backward(one_token(NormScope::row)), args);
  // dn = (8, -4, 16, 12), t = (8, -8, 16, 12), k = (16 + 16 + 32 + 24) / 4 / 4 = 5.5,
  // dx = (t - 5.5 x) / 2
  EXPECT_EQ(values_of(dq, 4), (std::vector<float>{-1.5f, 1.5f, 2.5f, 0.5f}));
  EXPECT_EQ(values_of(dg, 4), (std::vector<float>{8, 4, 16, 12}));
}

TEST(RmsNormRope, GivesTheGradientsOfHeads) {
  const Tensor dout = tensor_of({1, 1, 2, 2}, {4, 8, -12, 16});
  const Tensor q = tensor_of({1, 1, 2, 2}, {4, -4, 2, 2});
  const Tensor g = tensor_of({2}, {1, 2});
  const Tensor rstd = tensor_of({2}, {0.25f, 0.5f});
  const Tensor dq(Dtype::f32, {1, 1, 2, 2});
  const Tensor dg(Dtype::f32, {2});
  RmsNormRopeBackwardArgs args{dout, {}, q, {}, g, {}, rstd, {}, dq, {}, dg, {}, quarter_turn()};
  run_with_workspace(plan_rms_norm_rope_backward(one_token(NormScope::head)), args);
  // dn = (8, -4 | 16, 12), t = (8, -8 | 16, 24), k = 64 / 2 / 16 = 2 | 80 / 2 / 4 = 10
  EXPECT_EQ(values_of(dq, 4), (std::vector<float>{0, 0, -2, 2}));
  EXPECT_EQ(values_of(dg, 2), (std::vector<float>{8 + 16, 4 + 12}));
}

TEST(RmsNormRope, ClearsTheGradientOfTheWeightWhereThereIsNoToken) {
  RmsNormRopeProblem problem = one_token(NormScope::row);
  problem.seq = 0;
  const TensorView none = make_view(static_cast<void*>(nullptr), Dtype::f32, {1, 0, 2, 2});
  const Tensor g = tensor_of({4}, {1, 2, 1, 1});
  const TensorView rstd = make_view(static_cast<void*>(nullptr), Dtype::f32, {0});
  const Tensor dg = tensor_of({4}, {7, 7, 7, 7});
  const TensorView cache = make_view(static_cast<void*>(nullptr), Dtype::f32, {0, 1});
  RmsNormRopeBackwardArgs args{
      none, {}, none, {}, g, {}, rstd, {}, none, {}, dg, {}, {cache, cache, {}}};
  run_with_workspace(plan_rms_norm_rope_backward(problem), args);
  EXPECT_EQ(values_of(dg, 4), (std::vector<float>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace octet
