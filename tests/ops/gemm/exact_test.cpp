// Small integers with power-of-two scales: every result is an integer that f32 holds exactly, so
// int64 arithmetic gives the expected bits, whatever the order of the sum.
#include <gtest/gtest.h>

#include "ops/gemm/product_case.hpp"
#include "support/rounding.hpp"

namespace octet::testing {
namespace {

struct ExactOperand {
  QuantizedTensor tensor;
  std::vector<std::int64_t> numbers;  // [rows][k], scales multiplied in
};

// Integers in [-2, 2], each block scaled by a power of two in [1, 2^4].
ExactOperand make_operand(std::int64_t rows, std::int64_t k, const GemmOperand& operand,
                          std::mt19937_64& random) {
  ExactOperand result{QuantizedTensor(rows, k, operand.dtype, operand.block), {}};
  const QuantizedView& view = result.tensor.view();
  for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
      scale_at(view, r, c) = static_cast<float>(1 << (random() % 5));
    }
  }
  std::uint8_t codes[5];
  for (int i = 0; i < 5; ++i) codes[i] = code_of(static_cast<float>(i - 2), operand.dtype);
  result.numbers.resize(static_cast<std::size_t>(rows * k));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < k; ++c) {
      const int choice = static_cast<int>(random() % 5);
      value_at(view, r, c) = codes[choice];
      const auto scale =
          static_cast<std::int64_t>(scale_at(view, r / operand.block.rows, c / operand.block.cols));
      result.numbers[static_cast<std::size_t>(r * k + c)] = (choice - 2) * scale;
    }
  }
  return result;
}

struct ExactProduct {
  GemmProblem problem;
  ExactOperand a;
  ExactOperand b;
  std::vector<std::int64_t> expected;  // [m][n], without the initial d

  ExactProduct(const GemmProblem& given, std::mt19937_64& random)
      : problem(given),
        a(make_operand(given.m, given.k, given.a, random)),
        b(make_operand(given.n, given.k, given.b, random)),
        expected(static_cast<std::size_t>(given.m * given.n)) {
    for (std::int64_t m = 0; m < given.m; ++m) {
      for (std::int64_t n = 0; n < given.n; ++n) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < given.k; ++k) {
          sum += a.numbers[static_cast<std::size_t>(m * given.k + k)] *
                 b.numbers[static_cast<std::size_t>(n * given.k + k)];
        }
        expected[static_cast<std::size_t>(m * given.n + n)] = sum;
      }
    }
  }

  // Runs the product into a poisoned d and compares every element.
  void expect_exact(Dtype out, bool accumulate, const Runner& runner,
                    std::optional<Dtype> bias_dtype = {}) const {
    GemmProblem run_problem = problem;
    run_problem.out_dtype = out;
    run_problem.accumulate = accumulate;
    run_problem.bias_dtype = bias_dtype;
    const Tensor bias = integer_bias(run_problem);
    const Tensor d(out, {problem.m, problem.n});
    constexpr float kBefore = 3;
    for (std::int64_t i = 0; i < problem.m * problem.n; ++i) {
      store_f32(d.data(), i, out, accumulate ? kBefore : NAN);
    }
    runner.run(run_problem, {a.tensor, b.tensor, d, bias.view()}, 2);
    for (std::int64_t i = 0; i < problem.m * problem.n; ++i) {
      auto exact = static_cast<double>(expected[static_cast<std::size_t>(i)]);
      if (bias_dtype) exact += load_f32(bias.data(), i % problem.n, *bias_dtype);
      const double wanted = rounded(accumulate ? exact + kBefore : exact, out);
      ASSERT_EQ(load_f32(d.data(), i, out), wanted)
          << runner.name << ": octet check " << describe(run_problem) << " at row " << i / problem.n
          << ", column " << i % problem.n;
    }
  }
};

class GemmExact : public ::testing::TestWithParam<Pairing> {
 protected:
  static GemmProblem problem_of(const std::int64_t (&shape)[3]) {
    return make_problem(shape[0], shape[1], shape[2], GetParam());
  }
};

// The pairings that the Hopper kernel takes.
class GemmExactOnHopper : public GemmExact {};

constexpr std::int64_t kShapes[][3] = {
    {1, 1, 1},    {1, 129, 127}, {127, 1, 129},   {128, 128, 128}, {129, 127, 257},
    {8, 48, 256}, {9, 49, 384},  {257, 130, 300}, {64, 257, 128},  {7, 47, 385},
    {4, 24, 127}, {5, 25, 640},  {130, 257, 1},   {2, 300, 31},    {300, 2, 33},
};

TEST_P(GemmExact, EqualsIntegerArithmeticInEveryBit) {
  std::mt19937_64 random(20250101);
  for (const auto& shape : kShapes) {
    const ExactProduct product(problem_of(shape), random);
    for (const Runner& runner : all_runners()) {
      for (const Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        product.expect_exact(out, false, runner);
        if (out != Dtype::f16) product.expect_exact(out, true, runner);
      }
    }
  }
}

// More than one chunk along every dimension, and a depth that is packed in several pieces.
TEST_P(GemmExact, HoldsAcrossChunks) {
  ASSERT_FALSE(simd_runners().empty()) << "this machine has no AVX2";
  std::mt19937_64 random(7);
  constexpr std::int64_t kLong[][3] = {{2050, 50, 1000}, {9, 2100, 1400}};
  for (const auto& shape : kLong) {
    const ExactProduct product(problem_of(shape), random);
    for (const Runner& runner : simd_runners()) product.expect_exact(Dtype::f32, true, runner);
  }
}

// Widths at and beside the edges of micro-tiles and tiles.
constexpr std::int64_t kBiasShapes[][3] = {{3, 1, 130},    {65, 7, 200},   {9, 48, 128},
                                           {5, 129, 257},  {64, 200, 300}, {130, 257, 128},
                                           {257, 256, 512}};

TEST_P(GemmExact, AddsABiasBeforeItRounds) {
  std::mt19937_64 random(20250110);
  for (const auto& shape : kBiasShapes) {
    const ExactProduct product(problem_of(shape), random);
    for (const Runner& runner : all_runners()) {
      for (const Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (const Dtype bias : bias_dtypes(out)) product.expect_exact(out, false, runner, bias);
      }
    }
  }
}

TEST_P(GemmExactOnHopper, AddsABiasBeforeItRounds) {
  OCTET_NEEDS_HOPPER();
  std::mt19937_64 random(20250111);
  const auto expect = [&](const std::int64_t(&shape)[3]) {
    const ExactProduct product(problem_of(shape), random);
    for (const Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      for (const Dtype bias : bias_dtypes(out)) product.expect_exact(out, false, on_cuda(), bias);
    }
  };
  constexpr std::int64_t kMore[][3] = {{1500, 1400, 200}, {513, 1040, 129}, {16, 4096, 256}};
  for (const auto& shape : kBiasShapes) expect(shape);
  for (const auto& shape : kMore) expect(shape);
}

TEST_P(GemmExactOnHopper, HoldsOnHopper) {
  OCTET_NEEDS_HOPPER();
  std::mt19937_64 random(20250102);
  constexpr std::int64_t kMore[][3] = {{256, 128, 512}, {300, 520, 1100}, {513, 257, 129},
                                       {64, 512, 700},  {60, 300, 1300},  {1000, 700, 260},
                                       {16, 4096, 256}, {1500, 1400, 200}};
  const auto expect = [&](const std::int64_t(&shape)[3]) {
    const ExactProduct product(problem_of(shape), random);
    for (const Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      product.expect_exact(out, false, on_cuda());
      if (out != Dtype::f16) product.expect_exact(out, true, on_cuda());
    }
  };
  for (const auto& shape : kShapes) expect(shape);
  for (const auto& shape : kMore) expect(shape);
}

const auto kRowsOfA = ::testing::Values(
    Pairing{"rows_by_squares", {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock128x128}},
    Pairing{"rows_by_rows", {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock1x128}},
    Pairing{"e5m2_by_e4m3", {Dtype::e5m2, kBlock1x128}, {Dtype::e4m3, kBlock128x128}},
    Pairing{"e5m2_by_e5m2", {Dtype::e5m2, kBlock1x128}, {Dtype::e5m2, kBlock1x128}});
const auto kSquaresOfA = ::testing::Values(
    Pairing{"squares_by_rows", {Dtype::e4m3, kBlock128x128}, {Dtype::e4m3, kBlock1x128}});

std::string name_of(const ::testing::TestParamInfo<Pairing>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(RowsOfA, GemmExact, kRowsOfA, name_of);
INSTANTIATE_TEST_SUITE_P(SquaresOfA, GemmExact, kSquaresOfA, name_of);
INSTANTIATE_TEST_SUITE_P(RowsOfA, GemmExactOnHopper, kRowsOfA, name_of);

}  // namespace
}  // namespace octet::testing
