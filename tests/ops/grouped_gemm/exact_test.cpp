// Small integers with power-of-two scales against plain arithmetic, which is exact in any order.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/case.hpp"
#include "support/rounding.hpp"

namespace octet::testing {
namespace {

constexpr float kBefore = 3;

class GroupedGemmExact : public ::testing::TestWithParam<GroupedPairing> {};

void fill_with(const TensorView& matrix, float value) {
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols(); ++c) {
      store_f32(matrix.data, r * matrix.strides[0] + c, matrix.dtype, value);
    }
  }
}

std::vector<double> numbers_of(const DenseOperand& operand) {
  const TensorView values = operand.view().values;
  std::vector<double> numbers;
  for (std::int64_t r = 0; r < values.rows(); ++r) {
    for (std::int64_t c = 0; c < values.cols(); ++c) numbers.push_back(operand.number(r, c));
  }
  return numbers;
}

// The product of one group and what was there before, rounded: [m][n].
std::vector<double> exact(const GroupedCase& grouped, std::size_t group) {
  const GemmProblem dense = grouped.dense(group);
  const std::vector<double> a = numbers_of(grouped.a[group]);
  const std::vector<double> b = numbers_of(grouped.b[group]);
  std::vector<double> result;
  for (std::int64_t m = 0; m < dense.m; ++m) {
    for (std::int64_t n = 0; n < dense.n; ++n) {
      double sum = grouped.problem.accumulate ? kBefore : 0;
      for (std::int64_t k = 0; k < dense.k; ++k) {
        sum += a[static_cast<std::size_t>(m * dense.k + k)] *
               b[static_cast<std::size_t>(n * dense.k + k)];
      }
      result.push_back(rounded(sum, dense.out_dtype));
    }
  }
  return result;
}

using Exact = std::vector<std::vector<double>>;  // by group

Exact exact(const GroupedCase& grouped) {
  Exact result;
  for (std::size_t group = 0; group < grouped.sizes.size(); ++group) {
    result.push_back(exact(grouped, group));
  }
  return result;
}

void expect_exact(const GroupedCase& grouped, const Exact& wanted, const GuardedMatrix& d,
                  const std::string& runner) {
  for (std::size_t group = 0; group < grouped.sizes.size(); ++group) {
    const TensorView part = grouped.part_of(d, group);
    for (std::int64_t m = 0; m < part.rows(); ++m) {
      for (std::int64_t n = 0; n < part.cols(); ++n) {
        const double given = load_f32(part.data, m * part.strides[0] + n, part.dtype);
        const double exact = wanted[group][static_cast<std::size_t>(m * part.cols() + n)];
        if (given == exact) continue;
        FAIL() << runner << ": " << grouped.command() << ", group " << group << " at row " << m
               << ", column " << n << ": " << given << " instead of " << exact;
      }
    }
  }
  if (!grouped.over_rows()) return;
  const TensorView tail = grouped.part_of(d, grouped.sizes.size());
  for (std::int64_t m = 0; m < tail.rows(); ++m) {
    for (std::int64_t n = 0; n < tail.cols(); ++n) {
      ASSERT_EQ(bits_of(load_f32(tail.data, m * tail.strides[0] + n, tail.dtype)),
                grouped.problem.tail == GroupTail::zero ? 0u : bits_of(kBefore))
          << runner << ": " << grouped.command() << ", " << m << " rows behind the last group";
    }
  }
}

void run_exact(const GroupedCase& grouped) {
  const Exact wanted = exact(grouped);
  for (const GroupedRunner& runner : grouped_runners()) {
    for (const std::int64_t gap : {0, 5}) {
      const GuardedMatrix d = grouped.output(gap);
      const bool keeps = grouped.problem.accumulate || grouped.problem.tail == GroupTail::untouched;
      if (keeps) fill_with(d.view(), kBefore);
      runner.run(grouped.problem, grouped.with_output(d), 2);
      expect_exact(grouped, wanted, d, runner.dense.name);
      const GuardFindings guards = d.inspect();
      EXPECT_EQ(guards.outside, 0) << grouped.command();
      EXPECT_EQ(keeps ? 0 : guards.unwritten, 0) << grouped.command();
    }
  }
}

struct Rows {
  std::int64_t rows;
  Sizes sizes;  // clamped where they do not fit
};

const Rows kRows[] = {
    {385, {0, 1, 127, 128, 129}},
    {386, {129, 0, 0, 128, 128}},
    {300, {0, 300, 0}},
    {257, {257}},
    {130, {0, 0, 0}},
    {1, {1}},
    {1, {0}},
    {500, {3, 40, 129, 1, 103}},
    {200, {100, 150, 20}},
    {50, {-3, 60, 7}},
};

TEST_P(GroupedGemmExact, EqualsIntegerArithmeticInEveryBit) {
  constexpr std::int64_t kShapes[][2] = {{1, 1}, {50, 130}, {129, 127}, {8, 300}};
  std::uint64_t seed = 0;
  constexpr Dtype kOuts[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  for (const Rows& rows : kRows) {
    const auto& [n, k] = kShapes[seed % 4];
    GroupedGemmProblem problem = GetParam().problem(rows.rows, n, k);
    problem.out_dtype = kOuts[seed++ % 3];
    run_exact(GroupedCase(problem, rows.sizes, Numbers::integers, seed));
    if (problem.over == GroupedOver::rows) {
      problem.tail = GroupTail::untouched;
    } else if (problem.out_dtype != Dtype::f16) {
      problem.accumulate = true;
    } else {
      continue;
    }
    run_exact(GroupedCase(problem, rows.sizes, Numbers::integers, seed));
  }
}

// More columns and more contraction than one chunk has, and more rows than are packed at once.
TEST_P(GroupedGemmExact, HoldsAcrossChunks) {
  const bool over_rows = GetParam().over == GroupedOver::rows;
  GroupedGemmProblem problem =
      over_rows ? GetParam().problem(2200, 20, 540) : GetParam().problem(800, 2100, 20);
  problem.out_dtype = Dtype::f32;
  const Sizes sizes = over_rows ? Sizes{2080, 0, 40, 20} : Sizes{540, 0, 129, 100};
  const GroupedCase grouped(problem, sizes, Numbers::integers, 3);
  const Exact wanted = exact(grouped);
  for (const GroupedRunner& runner : grouped_runners()) {
    if (runner.dense.name == "cpu_reference") continue;
    const GuardedMatrix d = grouped.output(0);
    runner.run(grouped.problem, grouped.with_output(d), 2);
    expect_exact(grouped, wanted, d, runner.dense.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Pairings, GroupedGemmExact, ::testing::ValuesIn(grouped_pairings()),
                         pairing_name);

}  // namespace
}  // namespace octet::testing
