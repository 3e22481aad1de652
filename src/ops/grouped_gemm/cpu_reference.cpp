// The dense product of each group, and how both CPU implementations find it: the groups' parts of
// the operands and of d, and the parts of d that no product writes.
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <vector>

namespace octet {
namespace {

// Rows [first, first + count) of [T, K]; scales are per row.
OperandLines lines_of_rows(const QuantizedView& matrix, std::int64_t first, std::int64_t count) {
  if (matrix.scales.data == nullptr) return lines_of(rows_of(matrix.values, first, count));
  return lines_of(
      {rows_of(matrix.values, first, count), rows_of(matrix.scales, first, count), matrix.block});
}

// Lines along the tokens of [T, features], from row `first` on.
OperandLines lines_across_rows(const TensorView& matrix, std::int64_t first, std::int64_t count) {
  return lines_of(transposed(rows_of(matrix, first, count)));
}

// Lines along the tokens of [block][feature][128], from block `first` on: a slice is a block.
OperandLines lines_of_token_blocks(const QuantizedView& blocks, std::int64_t first) {
  OperandLines lines = lines_of(matrix_of(blocks, first));
  lines.slice_stride = blocks.values.strides[0];
  lines.scale_slice_stride = blocks.scales.strides[0];
  return lines;
}

CpuProduct product_over_rows(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                             const GroupRows& groups, std::int64_t group) {
  const std::int64_t first = groups.begin(group);
  const std::int64_t rows = groups.rows(group);
  return {rows,
          problem.n,
          problem.k,
          lines_of_rows(args.a, first, rows),
          lines_of(matrix_of(args.b, group)),
          rows_of(args.d, first, rows)};
}

CpuProduct product_over_contraction(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                                    const GroupRows& groups, std::int64_t group) {
  const auto lines = [&](const QuantizedView& operand) {
    return is_fp8(operand.values.dtype)
               ? lines_of_token_blocks(operand, groups.first_block(group))
               : lines_across_rows(operand.values, groups.begin(group), groups.rows(group));
  };
  CpuProduct product{problem.n,     problem.k,     groups.rows(group),
                     lines(args.a), lines(args.b), matrix_of(args.d, group)};
  product.accumulate = problem.accumulate;
  return product;
}

void run_reference(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                   const RunContext& context) {
  run_groups(problem, args, context.threads, [&](std::span<const CpuProduct> products) {
    for (const CpuProduct& product : products) run_reference_product(product, context.threads);
  });
}

}  // namespace

void run_groups(const GroupedGemmProblem& problem, const GroupedGemmArgs& args, int threads,
                const std::function<void(std::span<const CpuProduct>)>& compute) {
  const GroupRows groups("grouped_gemm", args.table, problem.groups, problem.rows);
  const bool over_rows = problem.over == GroupedOver::rows;
  std::vector<CpuProduct> products;
  products.reserve(static_cast<std::size_t>(problem.groups));
  for (std::int64_t group = 0; group < problem.groups; ++group) {
    if (groups.rows(group) > 0) {
      products.push_back(over_rows ? product_over_rows(problem, args, groups, group)
                                   : product_over_contraction(problem, args, groups, group));
    } else if (!over_rows && !problem.accumulate) {
      clear_rows(matrix_of(args.d, group), 0, threads);
    }
  }
  if (over_rows && problem.tail == GroupTail::zero) {
    clear_rows(args.d, groups.grouped_rows(), threads);
  }
  compute(products);
}

constinit const GroupedGemmImplementation kGroupedGemmCpuReference =
    cpu_reference<GroupedGemmProblem, GroupedGemmArgs, run_reference>();

}  // namespace octet
