// A grouped product is the dense product of each group, in every bit, whatever the other groups
// hold, on every instruction set and for every number of threads.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/case.hpp"

#include <numeric>
#include <thread>

namespace octet::testing {
namespace {

// Rows of bytes, from the first to the last element.
std::vector<std::vector<char>> bytes_of(const TensorView& matrix) {
  std::vector<std::vector<char>> rows;
  const std::int64_t element = size_bytes(matrix.dtype);
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    const char* row = static_cast<const char*>(matrix.data) + r * matrix.strides[0] * element;
    rows.emplace_back(row, row + matrix.cols() * element);
  }
  return rows;
}

void fill_randomly(const TensorView& matrix, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols(); ++c) {
      store_f32(matrix.data, r * matrix.strides[0] + c, matrix.dtype,
                static_cast<float>(random() % 2001) - 1000);
    }
  }
}

// Runs each group by itself on a copy of its part of `before`.
std::vector<std::vector<char>> dense_bytes(const GroupedCase& grouped, const Runner& dense,
                                           std::size_t group, const GuardedMatrix& before) {
  const TensorView part = grouped.part_of(before, group);
  if (grouped.sizes[group] == 0) {
    const Tensor zeros(part.dtype, {std::max<std::int64_t>(part.rows(), 1), part.cols()});
    std::memset(zeros.data(), 0, zeros.bytes());
    TensorView view = zeros.view();
    view.shape[0] = part.rows();
    return bytes_of(grouped.problem.accumulate ? part : view);
  }
  const Tensor d(part.dtype, {part.rows(), part.cols()});
  copy_elements(part, d.view());
  dense.run(grouped.dense(group), {grouped.a[group].view(), grouped.b[group].view(), d}, 1);
  return bytes_of(d.view());
}

void expect_dense(const GroupedCase& grouped, const GroupedRunner& runner, std::uint64_t seed) {
  const GuardedMatrix before = grouped.output(0);
  const GuardedMatrix d = grouped.output(static_cast<std::int64_t>(seed % 7));
  fill_randomly(before.view(), seed);
  copy_elements(before.view(), d.view());
  runner.run(grouped.problem, grouped.with_output(d), 1 + static_cast<int>(seed % 4));
  for (std::size_t group = 0; group < grouped.sizes.size(); ++group) {
    ASSERT_EQ(bytes_of(grouped.part_of(d, group)),
              dense_bytes(grouped, runner.dense, group, before))
        << runner.dense.name << ": seed " << seed << ", " << grouped.command() << ", group "
        << group;
  }
  EXPECT_EQ(d.inspect().outside, 0) << grouped.command();
}

std::int64_t random_extent(std::mt19937_64& random, std::int64_t largest) {
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest));
}

// Some groups empty, most short, one long.
Sizes random_sizes(std::mt19937_64& random) {
  Sizes sizes(1 + random() % 12);
  for (std::int64_t& size : sizes) size = random() % 4 == 0 ? 0 : random_extent(random, 60);
  sizes[random() % sizes.size()] = random_extent(random, 300);
  return sizes;
}

class GroupedGemmDense : public ::testing::TestWithParam<GroupedPairing> {};

TEST_P(GroupedGemmDense, EqualsTheDenseProductOfEachGroup) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::mt19937_64 random(seed);
    const Sizes sizes = random_sizes(random);
    const std::int64_t rows =
        std::max<std::int64_t>(1, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})) +
        static_cast<std::int64_t>(random() % 3 * 112);
    GroupedGemmProblem problem =
        GetParam().problem(rows, random_extent(random, 150), random_extent(random, 300));
    problem.out_dtype = std::array{Dtype::f32, Dtype::f16, Dtype::bf16}[seed % 3];
    problem.accumulate = problem.over == GroupedOver::contraction &&
                         problem.out_dtype != Dtype::f16 && random() % 2 == 0;
    const GroupedCase grouped(problem, sizes, Numbers::random, seed);
    for (const GroupedRunner& runner : grouped_runners()) expect_dense(grouped, runner, seed);
  }
}

// NaNs and infinities of one group reach only its own results.
TEST_P(GroupedGemmDense, KeepsNonFiniteNumbersInTheirGroup) {
  const Sizes sizes{70, 60, 90};
  GroupedGemmProblem problem = GetParam().problem(224, 33, 140);
  problem.out_dtype = Dtype::f32;
  const GroupedCase clean(problem, sizes, Numbers::random, 5);
  GroupedCase dirty(problem, sizes, Numbers::random, 5);
  const std::int64_t block = 1;  // groups of less than 128 rows have a token block each
  const auto spoil = [&](const QuantizedView& operand, bool over_rows) {
    TensorView part = operand.values;
    const std::int64_t at = part.rank == 3 ? block * part.strides[0]
                            : over_rows    ? 70 * part.strides[0]
                                           : 70 * part.strides[0] + 3 * part.strides[1];
    std::memset(static_cast<char*>(part.data) + at * size_bytes(part.dtype), 0x7F,
                static_cast<std::size_t>(size_bytes(part.dtype)));
  };
  spoil(dirty.args.a, dirty.over_rows());
  spoil(dirty.args.b, dirty.over_rows());
  for (const GroupedRunner& runner : grouped_runners()) {
    const GuardedMatrix wanted = clean.output(0);
    const GuardedMatrix given = dirty.output(0);
    runner.run(clean.problem, clean.with_output(wanted), 2);
    runner.run(dirty.problem, dirty.with_output(given), 2);
    for (const std::size_t group : {0u, 2u}) {
      EXPECT_EQ(bytes_of(clean.part_of(wanted, group)), bytes_of(dirty.part_of(given, group)))
          << runner.dense.name << ": " << clean.command() << ", group " << group;
    }
    EXPECT_NE(bytes_of(clean.part_of(wanted, 1)), bytes_of(dirty.part_of(given, 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Pairings, GroupedGemmDense, ::testing::ValuesIn(grouped_pairings()),
                         pairing_name);

// The same group alone, first, last, and among many: the same bits.
TEST(GroupedGemmDenseOrder, DoesNotDependOnTheOtherGroups) {
  for (const GroupedPairing& pairing : {grouped_pairings()[0], grouped_pairings()[9]}) {
    GroupedGemmProblem problem = pairing.problem(4000, 60, 200);
    Sizes sizes(64, 37);
    sizes[10] = 200;
    sizes[40] = 0;
    const GroupedCase many(problem, sizes, Numbers::random, 9);
    for (const GroupedRunner& runner : grouped_runners()) expect_dense(many, runner, 9);
  }
}

TEST(GroupedGemmThreads, CountAndCallersNeverChangeABit) {
  for (const GroupedPairing& pairing : {grouped_pairings()[0], grouped_pairings()[8]}) {
    GroupedGemmProblem problem = pairing.problem(900, 150, 260);
    problem.groups = 6;
    const GroupedCase grouped(problem, {300, 0, 1, 270, 129, 100}, Numbers::random, 11);
    const GuardedMatrix wanted = grouped.output(0);
    const GroupedGemmPlan plan = plan_grouped_gemm(grouped.problem, {"", 1});
    const Buffer workspace(plan.workspace_bytes);
    run(plan, grouped.with_output(wanted), {workspace.data(), workspace.bytes()});
    std::vector<std::thread> callers;
    std::vector<int> different(6, -1);
    for (int caller = 0; caller < 6; ++caller) {
      callers.emplace_back([&, caller] {
        const GroupedGemmPlan own = plan_grouped_gemm(grouped.problem, {"", 1 + caller});
        const Buffer memory(own.workspace_bytes);
        const GuardedMatrix given = grouped.output(0);
        run(own, grouped.with_output(given), {memory.data(), memory.bytes()});
        different[static_cast<std::size_t>(caller)] =
            bytes_of(given.view()) != bytes_of(wanted.view());
      });
    }
    for (std::thread& caller : callers) caller.join();
    for (const int mismatch : different) EXPECT_EQ(mismatch, 0);
  }
}

}  // namespace
}  // namespace octet::testing
