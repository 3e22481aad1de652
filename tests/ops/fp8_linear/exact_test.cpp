// The whole layer, exactly: integers in [-7, 7] with a 7 in every 128-block of every row and column
// make every scale 7 / 448 = 2^-6, also that of a whole row or tensor; those of mx blocks are powers
// of two anyway. So y, dx and dw equal the integer products bit for bit.
#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "support/rounding.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <random>
#include <vector>

namespace octet::testing {
namespace {

struct IntegerMatrix {
  std::int64_t rows;
  std::int64_t cols;
  std::vector<std::int64_t> numbers;

  std::int64_t& at(std::int64_t r, std::int64_t c) {
    return numbers[static_cast<std::size_t>(r * cols + c)];
  }
  std::int64_t at(std::int64_t r, std::int64_t c) const {
    return numbers[static_cast<std::size_t>(r * cols + c)];
  }
};

IntegerMatrix random_integers(std::int64_t rows, std::int64_t cols, std::mt19937_64& random) {
  IntegerMatrix matrix{rows, cols,
                       std::vector<std::int64_t>(static_cast<std::size_t>(rows * cols))};
  const auto seven = [&] { return random() % 2 ? 7 : -7; };
  for (auto& number : matrix.numbers) number = static_cast<std::int64_t>(random() % 15) - 7;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t begin = 0; begin < cols; begin += kBlock) {
      matrix.at(r, begin + r % std::min(kBlock, cols - begin)) = seven();
    }
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
      matrix.at(begin + c % std::min(kBlock, rows - begin), c) = seven();
    }
  }
  return matrix;
}

Tensor to_tensor(const IntegerMatrix& matrix, Dtype dtype) {
  Tensor tensor(dtype, {matrix.rows, matrix.cols});
  for (std::size_t i = 0; i < matrix.numbers.size(); ++i) {
    store_f32(tensor.data(), static_cast<std::int64_t>(i), dtype,
              static_cast<float>(matrix.numbers[i]));
  }
  return tensor;
}

// The sum over i of left(i, r) * right(i, c).
template <class Left, class Right>
IntegerMatrix multiply(std::int64_t rows, std::int64_t cols, std::int64_t depth, const Left& left,
                       const Right& right) {
  IntegerMatrix result{rows, cols,
                       std::vector<std::int64_t>(static_cast<std::size_t>(rows * cols))};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < depth; ++i) sum += left(r, i) * right(i, c);
      result.at(r, c) = sum;
    }
  }
  return result;
}

void expect_exact(const Tensor& given, const IntegerMatrix& wanted, double before,
                  const std::string& what) {
  const Dtype dtype = given.view().dtype;
  for (std::int64_t r = 0; r < wanted.rows; ++r) {
    for (std::int64_t c = 0; c < wanted.cols; ++c) {
      const double exact = rounded(static_cast<double>(wanted.at(r, c)) + before, dtype);
      ASSERT_EQ(load_f32(given.data(), r * wanted.cols + c, dtype), exact)
          << what << " at row " << r << ", column " << c;
    }
  }
}

Tensor filled(Dtype dtype, std::int64_t rows, std::int64_t cols, float value) {
  Tensor tensor(dtype, {rows, cols});
  for (std::int64_t i = 0; i < rows * cols; ++i) store_f32(tensor.data(), i, dtype, value);
  return tensor;
}

// [1, cols]: the gradient of a bias.
IntegerMatrix column_sums(const IntegerMatrix& matrix) {
  IntegerMatrix sums{1, matrix.cols,
                     std::vector<std::int64_t>(static_cast<std::size_t>(matrix.cols))};
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) sums.at(0, c) += matrix.at(r, c);
  }
  return sums;
}

void expect_exact_layer(const Fp8LinearProblem& problem) {
  SCOPED_TRACE("octet check " + describe(problem));
  std::mt19937_64 random(42);
  const IntegerMatrix x = random_integers(problem.m, problem.k, random);
  const IntegerMatrix w = random_integers(problem.n, problem.k, random);
  const IntegerMatrix dy = random_integers(problem.m, problem.n, random);
  const Tensor x_tensor = to_tensor(x, problem.dtype);
  const Tensor w_tensor = to_tensor(w, problem.dtype);
  const Tensor dy_tensor = to_tensor(dy, problem.dtype);
  const Tensor y = filled(problem.dtype, problem.m, problem.n, NAN);
  const Tensor dx = filled(problem.dtype, problem.m, problem.k, NAN);
  const float before = problem.accumulate_dw ? 5 : NAN;
  const Tensor dw = filled(problem.dw_dtype, problem.n, problem.k, before);
  IntegerMatrix bias{1, problem.n, {}};
  for (std::int64_t n = 0; n < problem.n; ++n) bias.numbers.push_back(n * 37 % 201 - 100);
  const Tensor bias_tensor = to_tensor(bias, problem.bias_dtype.value_or(Dtype::f32));
  const Tensor dbias = filled(problem.dbias_dtype.value_or(Dtype::f32), 1, problem.n, before);
  const auto vector = [](const Tensor& row, bool used) {
    return used ? make_view(row.data(), row.view().dtype, {row.view().cols()}) : TensorView{};
  };

  Fp8Linear layer(problem);
  layer.forward(x_tensor, w_tensor, vector(bias_tensor, problem.bias_dtype.has_value()), y);
  layer.backward(dy_tensor, dx, dw, vector(dbias, problem.dbias_dtype.has_value()));

  IntegerMatrix wanted_y = multiply(
      problem.m, problem.n, problem.k, [&](auto r, auto i) { return x.at(r, i); },
      [&](auto i, auto c) { return w.at(c, i); });
  for (std::int64_t i = 0; problem.bias_dtype && i < problem.m * problem.n; ++i) {
    wanted_y.at(i / problem.n, i % problem.n) += bias.at(0, i % problem.n);
  }
  expect_exact(y, wanted_y, 0, "y");
  if (problem.dbias_dtype) {
    expect_exact(dbias, column_sums(dy), problem.accumulate_dw ? before : 0, "dbias");
  }
  expect_exact(dx,
               multiply(
                   problem.m, problem.k, problem.n, [&](auto r, auto i) { return dy.at(r, i); },
                   [&](auto i, auto c) { return w.at(i, c); }),
               0, "dx");
  expect_exact(dw,
               multiply(
                   problem.n, problem.k, problem.m, [&](auto r, auto i) { return dy.at(i, r); },
                   [&](auto i, auto c) { return x.at(i, c); }),
               problem.accumulate_dw ? before : 0, "dw");
}

constexpr std::int64_t kShapes[][3] = {{128, 128, 128}, {1, 1, 1},      {129, 127, 257},
                                       {1, 300, 130},   {200, 1, 129},  {257, 129, 1},
                                       {64, 384, 256},  {130, 131, 132}};

TEST(Fp8LinearExact, EqualsIntegerProductsInEveryBit) {
  for (const auto& shape : kShapes) {
    for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
      Fp8LinearProblem problem{.m = shape[0], .n = shape[1], .k = shape[2], .wgrad_blocks = blocks};
      expect_exact_layer(problem);
    }
  }
}

TEST(Fp8LinearExact, EqualsIntegerProductsInEveryGranularity) {
  for (const auto& [m, n, k] : kShapes) {
    for (const Granularity granularity :
         {Granularity::tensorwise, Granularity::rowwise, Granularity::mxfp8}) {
      Fp8LinearProblem problem{.m = m, .n = n, .k = k};
      problem.granularity = granularity;
      problem.bias_dtype = Dtype::f32;
      expect_exact_layer(problem);
      problem.grad_format = Dtype::e5m2;
      problem.dw_dtype = Dtype::f32;
      problem.accumulate_dw = true;
      expect_exact_layer(problem);
      if (granularity != Granularity::mxfp8) continue;
      problem.wgrad_blocks = WgradBlocks::square;
      for (const MxScale scale : {MxScale::floor, MxScale::even, MxScale::up}) {
        problem.mx_scale = scale;
        expect_exact_layer(problem);
      }
    }
  }
}

TEST(Fp8LinearExact, AddsABiasAndSumsItsGradient) {
  constexpr std::int64_t kBiasShapes[][3] = {
      {130, 1, 64}, {70, 7, 130}, {257, 129, 40}, {1, 257, 33}, {300, 640, 16}};
  for (const auto& [m, n, k] : kBiasShapes) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      for (const Dtype gradient : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
        Fp8LinearProblem problem{.m = m, .n = n, .k = k, .dtype = dtype, .dw_dtype = Dtype::f32};
        problem.bias_dtype = gradient == Dtype::f32 ? Dtype::f32 : dtype;
        problem.dbias_dtype = gradient;
        expect_exact_layer(problem);
        if (gradient == Dtype::f16) continue;
        problem.accumulate_dw = true;
        expect_exact_layer(problem);
      }
    }
  }
}

TEST(Fp8LinearExact, HoldsForEveryDtypeAndMainGradient) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const Dtype dw : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && dw == Dtype::f16) continue;
        Fp8LinearProblem problem{.m = 140,
                                 .n = 133,
                                 .k = 150,
                                 .dtype = dtype,
                                 .dw_dtype = dw,
                                 .accumulate_dw = accumulate};
        expect_exact_layer(problem);
      }
    }
  }
}

}  // namespace
}  // namespace octet::testing
