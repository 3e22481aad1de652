// max(g, 0)^2 of small integers and row weights that are powers of two: every result is exact.
#include "core/numeric.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

namespace octet {
namespace {

int gate_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r * 7 + c * 3) % 9) - 4; }
int up_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r * 5 + c) % 7) - 3; }
int dy_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r + c * 5) % 5) - 2; }
float weight_at(std::int64_t r) { return r % 2 == 0 ? 0.5f : -2.0f; }
int positive(int value) { return value > 0 ? value : 0; }

Tensor matrix_of(Dtype dtype, std::int64_t rows, std::int64_t cols,
                 int (*value)(std::int64_t, std::int64_t)) {
  Tensor result(dtype, {rows, cols});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      store_f32(result.data(), r * cols + c, dtype, static_cast<float>(value(r, c)));
    }
  }
  return result;
}

Tensor weights_of(std::int64_t rows) {
  Tensor result(Dtype::f32, {rows});
  for (std::int64_t r = 0; r < rows; ++r) static_cast<float*>(result.data())[r] = weight_at(r);
  return result;
}

float at(const Tensor& tensor, std::int64_t index) {
  return load_f32(tensor.data(), index, tensor.view().dtype);
}

struct Case {
  std::int64_t rows;
  std::int64_t cols;
  Dtype dtype;
};

class GatedActivationExact : public ::testing::TestWithParam<Case> {};

TEST_P(GatedActivationExact, ReluSquaredOfIntegers) {
  const auto [rows, cols, dtype] = GetParam();
  GatedActivationProblem problem{rows, cols, dtype, GateActivation::relu_squared, true};
  const Tensor gate = matrix_of(dtype, rows, cols, gate_at);
  const Tensor up = matrix_of(dtype, rows, cols, up_at);
  const Tensor dy = matrix_of(dtype, rows, cols, dy_at);
  const Tensor weights = weights_of(rows);
  for (const char* backend : {"", "cpu_reference"}) {
    const Tensor y(dtype, {rows, cols});
    const Tensor dgate(dtype, {rows, cols});
    const Tensor dup(dtype, {rows, cols});
    const Tensor d_weights(Dtype::f32, {rows});
    run(plan_gated_activation_forward(problem, {backend, 2}), {gate, up, weights, y, {}});
    run(plan_gated_activation_backward(problem, {backend, 2}),
        {dy, gate, up, weights, dgate, dup, {}, d_weights});
    for (std::int64_t r = 0; r < rows; ++r) {
      int d_weight = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        const int act = positive(gate_at(r, c)) * positive(gate_at(r, c));
        const int up_value = up_at(r, c);
        const int dy_value = dy_at(r, c);
        const float p = weight_at(r);
        const std::int64_t i = r * cols + c;
        ASSERT_EQ(at(y, i), static_cast<float>(act * up_value) * p) << describe(problem);
        ASSERT_EQ(at(dgate, i),
                  static_cast<float>(dy_value * up_value * 2 * positive(gate_at(r, c))) * p);
        ASSERT_EQ(at(dup, i), static_cast<float>(dy_value * act) * p);
        d_weight += dy_value * act * up_value;
      }
      ASSERT_EQ(at(d_weights, r), static_cast<float>(d_weight)) << "row " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GatedActivationExact,
                         ::testing::Values(Case{1, 1, Dtype::f32}, Case{3, 33, Dtype::bf16},
                                           Case{5, 128, Dtype::f16}, Case{2, 513, Dtype::f32},
                                           Case{17, 95, Dtype::bf16}, Case{511, 31, Dtype::f16}));

}  // namespace
}  // namespace octet
