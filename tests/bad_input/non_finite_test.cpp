// NaN and infinities are data, not errors: they poison exactly the outputs that depend on them, and
// every other output keeps its bits.
#include "bad_input/both_apis.hpp"

#include <cmath>
#include <functional>
#include <limits>

namespace octet::bad_input {
namespace {

constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kOutputs = 130;
constexpr std::int64_t kInputs = 140;

struct Layer {
  Tensor x{Dtype::f32, {kTokens, kInputs}};
  Tensor w{Dtype::f32, {kOutputs, kInputs}};
  Tensor dy{Dtype::f32, {kTokens, kOutputs}};
  Tensor y{Dtype::f32, {kTokens, kOutputs}};
  Tensor dx{Dtype::f32, {kTokens, kInputs}};
  Tensor dw{Dtype::f32, {kOutputs, kInputs}};

  static float& at(const Tensor& tensor, std::int64_t row, std::int64_t col) {
    return static_cast<float*>(tensor.data())[row * tensor.view().cols() + col];
  }
  static void fill(const Tensor& tensor, int seed) {
    for (std::int64_t r = 0; r < tensor.view().rows(); ++r) {
      for (std::int64_t c = 0; c < tensor.view().cols(); ++c) {
        at(tensor, r, c) = static_cast<float>((r * 31 + c * 17 + seed) % 23) / 8 - 1.25f;
      }
    }
  }

  // Forward and backward with one element of x, w and dy replaced.
  void compute(float x_value, float w_value, float dy_value) {
    fill(x, 1);
    fill(w, 2);
    fill(dy, 3);
    at(x, 2, 5) = x_value;
    at(w, 129, 131) = w_value;
    at(dy, 4, 7) = dy_value;
    Fp8LinearProblem problem{.m = kTokens, .n = kOutputs, .k = kInputs};
    problem.dtype = problem.dw_dtype = Dtype::f32;
    Fp8Linear layer(problem);
    layer.forward(x, w, y);
    layer.backward(dy, dx, dw);
  }
};

using Where = std::function<bool(std::int64_t, std::int64_t)>;

void expect_poisoned_exactly(const char* name, const Tensor& dirty, const Tensor& clean,
                             const Where& depends) {
  for (std::int64_t r = 0; r < dirty.view().rows(); ++r) {
    for (std::int64_t c = 0; c < dirty.view().cols(); ++c) {
      const float value = Layer::at(dirty, r, c);
      if (depends(r, c)) {
        ASSERT_FALSE(std::isfinite(value)) << name << " " << r << " " << c;
      } else {
        ASSERT_EQ(value, Layer::at(clean, r, c)) << name << " " << r << " " << c;
      }
    }
  }
}

class NonFinite : public testing::TestWithParam<float> {};

TEST_P(NonFinite, InXPoisonsItsTokenAndItsColumnOfDw) {
  Layer clean;
  Layer dirty;
  clean.compute(0, 0, 0);
  dirty.compute(GetParam(), 0, 0);
  expect_poisoned_exactly("y", dirty.y, clean.y, [](auto m, auto) { return m == 2; });
  expect_poisoned_exactly("dx", dirty.dx, clean.dx, [](auto, auto) { return false; });
  expect_poisoned_exactly("dw", dirty.dw, clean.dw, [](auto, auto k) { return k == 5; });
}

TEST_P(NonFinite, InWPoisonsItsColumnsOfYAndDx) {
  Layer clean;
  Layer dirty;
  clean.compute(0, 0, 0);
  dirty.compute(0, GetParam(), 0);
  expect_poisoned_exactly("y", dirty.y, clean.y, [](auto, auto n) { return n == 129; });
  expect_poisoned_exactly("dx", dirty.dx, clean.dx, [](auto, auto k) { return k == 131; });
  expect_poisoned_exactly("dw", dirty.dw, clean.dw, [](auto, auto) { return false; });
}

TEST_P(NonFinite, InDyPoisonsItsTokenOfDxAndItsRowOfDw) {
  Layer clean;
  Layer dirty;
  clean.compute(0, 0, 0);
  dirty.compute(0, 0, GetParam());
  expect_poisoned_exactly("y", dirty.y, clean.y, [](auto, auto) { return false; });
  expect_poisoned_exactly("dx", dirty.dx, clean.dx, [](auto m, auto) { return m == 4; });
  expect_poisoned_exactly("dw", dirty.dw, clean.dw, [](auto n, auto) { return n == 7; });
}

INSTANTIATE_TEST_SUITE_P(BadInput, NonFinite,
                         testing::Values(std::numeric_limits<float>::quiet_NaN(),
                                         std::numeric_limits<float>::infinity(),
                                         -std::numeric_limits<float>::infinity()));

}  // namespace
}  // namespace octet::bad_input
