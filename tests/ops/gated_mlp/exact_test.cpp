// The whole layer with relu_squared, exactly. Plain: small integers make every sum exact, and the
// test rounds where the layer rounds. FP8: rows of x and dy that hold one power of two each make
// every tensor that is cast consist of powers of two, which power-of-two scales keep exact, so
// results equal those of the integers in every bit.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"
#include "support/rounding.hpp"

#include <vector>

namespace octet::testing {
namespace {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> numbers;

  Matrix(std::int64_t rows_, std::int64_t cols_)
      : rows(rows_), cols(cols_), numbers(static_cast<std::size_t>(rows_ * cols_)) {}
  double& at(std::int64_t r, std::int64_t c) {
    return numbers[static_cast<std::size_t>(r * cols + c)];
  }
  double at(std::int64_t r, std::int64_t c) const {
    return numbers[static_cast<std::size_t>(r * cols + c)];
  }
  Matrix transposed() const {
    Matrix result(cols, rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) result.at(c, r) = at(r, c);
    }
    return result;
  }
};

// a b^T + before, rounded to dtype.
Matrix multiply(const Matrix& a, const Matrix& b, Dtype dtype, double before = 0) {
  Matrix result(a.rows, b.rows);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < b.rows; ++c) {
      double sum = before;
      for (std::int64_t i = 0; i < a.cols; ++i) sum += a.at(r, i) * b.at(c, i);
      result.at(r, c) = rounded(sum, dtype);
    }
  }
  return result;
}

void store(const Matrix& matrix, const Tensor& tensor) {
  for (std::size_t i = 0; i < matrix.numbers.size(); ++i) {
    store_f32(tensor.data(), static_cast<std::int64_t>(i), tensor.view().dtype,
              static_cast<float>(matrix.numbers[i]));
  }
}

void expect_equal(const Tensor& given, const Matrix& wanted, const char* what) {
  const Dtype dtype = given.view().dtype;
  ASSERT_EQ(given.view().rows(), wanted.rows);
  ASSERT_EQ(given.view().cols(), wanted.cols);
  for (std::int64_t r = 0; r < wanted.rows; ++r) {
    for (std::int64_t c = 0; c < wanted.cols; ++c) {
      ASSERT_EQ(load_f32(given.data(), r * wanted.cols + c, dtype), wanted.at(r, c))
          << what << " at row " << r << ", column " << c;
    }
  }
}

Matrix dense_integers(std::int64_t rows, std::int64_t cols, std::mt19937& random) {
  Matrix matrix(rows, cols);
  for (double& number : matrix.numbers) number = static_cast<double>(random() % 3) - 1;
  return matrix;
}

double power_of_two(std::mt19937& random) {
  constexpr double kPowers[] = {-2, -1, 1, 2};
  return kPowers[random() % 4];
}

Matrix powers(std::int64_t rows, std::int64_t cols, std::mt19937& random) {
  Matrix matrix(rows, cols);
  for (double& number : matrix.numbers) number = power_of_two(random);
  return matrix;
}

Matrix one_power_per_row(std::int64_t rows, std::int64_t cols, std::mt19937& random) {
  Matrix matrix(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    matrix.at(r, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(cols))) =
        power_of_two(random);
  }
  return matrix;
}

void expect_exact(const GatedMlpProblem& problem) {
  SCOPED_TRACE("octet check " + describe(problem));
  const auto [m, f, k] = std::array{problem.m, problem.f, problem.k};
  std::mt19937 random(7);
  const auto rows = problem.fp8 ? one_power_per_row : dense_integers;
  const auto weights = problem.fp8 ? powers : dense_integers;
  const Matrix x = rows(m, k, random);
  const Matrix w_gate_up = weights(2 * f, k, random);
  const Matrix w_down = weights(k, f, random);
  const Matrix dout = problem.down ? rows(m, k, random) : weights(m, f, random);

  const Layer layer(problem);
  store(x, layer.x);
  store(w_gate_up, layer.w_gate_up);
  store(w_down, layer.w_down);
  store(dout, layer.dout);
  layer.run();

  const Matrix gate_up = multiply(x, w_gate_up, problem.dtype);
  const Matrix dh = problem.down ? multiply(dout, w_down.transposed(), problem.dtype) : dout;
  Matrix h(m, f);
  Matrix d_gate_up(m, 2 * f);
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < f; ++c) {
      const double gate = std::max(gate_up.at(r, c), 0.0);
      const double up = gate_up.at(r, f + c);
      h.at(r, c) = rounded(gate * gate * up, problem.dtype);
      d_gate_up.at(r, c) = rounded(dh.at(r, c) * up * 2 * gate, problem.dtype);
      d_gate_up.at(r, f + c) = rounded(dh.at(r, c) * gate * gate, problem.dtype);
    }
  }
  const double before = problem.accumulate_dw ? 5 : 0;
  if (problem.down) {
    expect_equal(layer.y, multiply(h, w_down, problem.dtype), "y");
    expect_equal(layer.dw_down,
                 multiply(dout.transposed(), h.transposed(), problem.dw_dtype, before), "dw_down");
  } else if (!problem.fp8) {
    expect_equal(layer.h, h, "h");
  }
  expect_equal(layer.dx, multiply(d_gate_up, w_gate_up.transposed(), problem.dtype), "dx");
  expect_equal(layer.dw_gate_up,
               multiply(d_gate_up.transposed(), x.transposed(), problem.dw_dtype, before),
               "dw_gate_up");
}

constexpr std::int64_t kShapes[][3] = {{1, 1, 1}, {5, 33, 7}, {40, 100, 136}, {130, 64, 129}};

GatedMlpProblem exact_problem(const std::int64_t (&shape)[3]) {
  GatedMlpProblem problem{.m = shape[0],
                          .f = shape[1],
                          .k = shape[2],
                          .activation = GateActivation::relu_squared,
                          .pow2_scales = true};
  return problem;
}

TEST(GatedMlpExact, PlainLayersEqualIntegersRoundedAlike) {
  for (const auto& shape : kShapes) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const bool down : {false, true}) {
        GatedMlpProblem problem = exact_problem(shape);
        problem.k = std::min<std::int64_t>(problem.k, 20);  // keeps f16 and the sums in range
        problem.dtype = problem.dw_dtype = dtype;
        problem.down = down;
        expect_exact(problem);
      }
    }
  }
}

TEST(GatedMlpExact, Fp8LayersEqualIntegersInEveryBit) {
  for (const auto& shape : kShapes) {
    for (const bool down : {false, true}) {
      for (const bool unfused : {false, true}) {
        GatedMlpProblem problem = exact_problem(shape);
        problem.fp8 = true;
        problem.down = down;
        problem.unfused = unfused;
        expect_exact(problem);
      }
    }
  }
}

TEST(GatedMlpExact, HoldsForEveryDtypeAndMainGradient) {
  for (const bool fp8 : {false, true}) {
    for (const Dtype dw : {Dtype::bf16, Dtype::f32}) {
      for (const bool accumulate : {false, true}) {
        GatedMlpProblem problem = exact_problem(kShapes[1]);
        problem.dtype = dw == Dtype::f32 ? Dtype::bf16 : Dtype::f32;
        problem.fp8 = fp8;
        problem.down = true;
        problem.dw_dtype = dw;
        problem.accumulate_dw = accumulate;
        problem.grad_format = Dtype::e5m2;
        problem.wgrad_blocks = accumulate ? WgradBlocks::square : WgradBlocks::rows;
        expect_exact(problem);
      }
    }
  }
}

}  // namespace
}  // namespace octet::testing
