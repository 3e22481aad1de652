// grouped_gemm: every group against the product of its rows alone, with FP8 operands in their grouped
// layouts and with plain operands. What no group owns holds NaN.
#include "check/ops/grouped_product.hpp"
#include "core/views.hpp"

#include <utility>

namespace octet {
namespace {

// An operand of every group, as the gates read it and as the operator does.
struct Operand {
  Tensor source;                         // bf16 if it is quantised afterwards
  std::vector<QuantizedView> exact;      // by group, [lines, k], before quantisation
  std::vector<QuantizedOperand> casts;   // by group
  std::vector<QuantizedView> quantized;  // by group, [lines, k]
  Buffer memory;
  QuantizedView given;           // the argument of grouped_gemm
  WorstOfGroups worst_of_casts;  // gate Q, on CUDA

  // Quantises each group's matrix, or its transpose.
  void cast(std::int64_t group, const TensorView& matrix, Transpose transpose,
            const GemmOperand& kind, const DataOptions& options) {
    GateReport report;
    casts[static_cast<std::size_t>(group)] =
        QuantizedOperand("operand", matrix, transpose, {kind.dtype, kind.block}, options, report);
    quantized[static_cast<std::size_t>(group)] = casts[static_cast<std::size_t>(group)].view();
    worst_of_casts.add(group, std::move(report.results));
  }
  template <class Layout>
  void place_among_nans(const Layout& layout, Device device) {
    memory = Buffer(layout.bytes, device);
    const auto bytes = static_cast<std::int64_t>(layout.bytes);
    fill(Rectangle{memory.data(), 1, bytes, bytes, device}, 0xFF);
    given = layout.view(memory.data(), device);
  }
  explicit Operand(std::int64_t groups)
      : exact(static_cast<std::size_t>(groups)),
        casts(static_cast<std::size_t>(groups)),
        quantized(static_cast<std::size_t>(groups)) {}
};

Dtype source_dtype(const GemmOperand& kind) {
  return is_fp8(kind.dtype) ? Dtype::bf16 : kind.dtype;
}

// a over rows, [T, K].
Operand make_rows(const GemmOperand& kind, const GroupedRows& rows, std::int64_t k,
                  const DataOptions& options) {
  Operand operand(rows.groups());
  operand.source = rows.random_rows(source_dtype(kind), k, 0, options);
  operand.given = operand.source.view();
  if (is_fp8(kind.dtype)) {
    operand.place_among_nans(QuantizedLayout(rows.rows(), k, kind.dtype, kind.block),
                             rows.device());
  } else if (kind.major == Major::mn) {
    operand.source = rows.random_columns(kind.dtype, k, 0, options);
    operand.given = transposed(operand.source.view());
  }
  for (std::int64_t group = 0; group < rows.groups(); ++group) {
    if (rows.size(group) == 0) continue;
    if (!is_fp8(kind.dtype)) {
      operand.exact[static_cast<std::size_t>(group)] = rows.of(operand.given.values, group);
      continue;
    }
    const TensorView matrix = rows.of(operand.source, group);
    operand.exact[static_cast<std::size_t>(group)] = matrix;
    operand.cast(group, matrix, Transpose::no, kind, options);
    copy_elements(operand.quantized[static_cast<std::size_t>(group)],
                  rows_of(operand.given, rows.begin(group), rows.size(group)));
  }
  return operand;
}

// b over rows, [groups, N, K].
Operand make_weights(const GemmOperand& kind, const GroupedRows& rows, std::int64_t n,
                     std::int64_t k, const DataOptions& options) {
  Operand operand(rows.groups());
  const bool turned = kind.major == Major::mn;
  operand.source = random_batch(source_dtype(kind), rows.groups(), turned ? k : n, turned ? n : k,
                                1, options, rows.device());
  const TensorView batch = as_batch(operand.source, rows.groups());
  operand.given = batch;
  if (turned) {
    std::swap(operand.given.values.shape[1], operand.given.values.shape[2]);
    std::swap(operand.given.values.strides[1], operand.given.values.strides[2]);
  }
  const TensorView matrices = operand.given.values;
  if (is_fp8(kind.dtype)) {
    operand.place_among_nans(QuantizedBatchLayout(rows.groups(), n, k, kind.dtype, kind.block),
                             rows.device());
  }
  for (std::int64_t group = 0; group < rows.groups(); ++group) {
    const TensorView matrix = matrix_of(matrices, group);
    operand.exact[static_cast<std::size_t>(group)] = matrix;
    if (!is_fp8(kind.dtype)) continue;
    operand.cast(group, matrix, Transpose::no, kind, options);
    copy_elements(operand.quantized[static_cast<std::size_t>(group)],
                  matrix_of(operand.given, group));
  }
  return operand;
}

// Copies a group's [features, rows] to its token blocks, the first of which is `block`, with zeros behind its
// last row; returns the block behind them.
std::int64_t copy_to_blocks(const QuantizedView& from, const QuantizedView& blocks,
                            std::int64_t block) {
  for (std::int64_t first = 0; first < from.values.cols(); first += kBlock, ++block) {
    QuantizedView slice = from;
    slice.values = columns(from.values, first, std::min(kBlock, from.values.cols() - first));
    slice.scales = columns(from.scales, first / kBlock, 1);
    QuantizedView to = matrix_of(blocks, block);
    fill(elements_of(to.values), 0);
    to.values.shape[1] = slice.values.cols();
    copy_elements(slice, to);
  }
  return block;
}

// An operand over the contraction: [T, features], or token blocks of it.
Operand make_tokens(const GemmOperand& kind, const GroupedRows& rows, std::int64_t features,
                    std::uint32_t stream, const DataOptions& options) {
  Operand operand(rows.groups());
  operand.source = rows.random_rows(source_dtype(kind), features, stream, options);
  operand.given = operand.source.view();
  if (is_fp8(kind.dtype)) {
    operand.place_among_nans(
        QuantizedBatchLayout::token_blocks(max_token_blocks(rows.groups(), rows.rows()), features,
                                           kind.dtype, kind.block),
        rows.device());
  }
  std::int64_t block = 0;
  for (std::int64_t group = 0; group < rows.groups(); ++group) {
    if (rows.size(group) == 0) continue;
    const TensorView matrix = rows.of(operand.source, group);
    operand.exact[static_cast<std::size_t>(group)] = transposed(matrix);
    if (!is_fp8(kind.dtype)) continue;
    operand.cast(group, matrix, Transpose::yes, kind, options);
    block =
        copy_to_blocks(operand.quantized[static_cast<std::size_t>(group)], operand.given, block);
  }
  return operand;
}

GateReport judge_grouped_gemm(const GroupedGemmProblem& problem, const DataOptions& options,
                              const GroupedGemmPlan& plan) {
  GateReport report;
  const bool over_rows = problem.over == GroupedOver::rows;
  const GroupedRows rows(problem.groups, problem.rows, options, problem.device);
  Operand a = over_rows ? make_rows(problem.a, rows, problem.k, options)
                        : make_tokens(problem.a, rows, problem.n, 0, options);
  Operand b = over_rows ? make_weights(problem.b, rows, problem.n, problem.k, options)
                        : make_tokens(problem.b, rows, problem.k, 1, options);
  a.worst_of_casts.move_to(report);
  b.worst_of_casts.move_to(report);
  Tensor old;
  if (problem.accumulate) {
    old = random_batch(problem.out_dtype, problem.groups, problem.n, problem.k, 2, options,
                       problem.device);
  }
  const GroupedOutput d =
      over_rows ? GroupedOutput(rows, problem.tail, problem.out_dtype, problem.n, options)
                : GroupedOutput(rows, problem.out_dtype, problem.n, problem.k, old.view(), options);
  for (const int call : {0, 1}) {
    run_once(plan, GroupedGemmArgs{a.given, b.given, d.view(call), rows.table()}, problem.device);
  }

  const JudgeOptions judge = judge_options(options, problem.device);
  WorstOfGroups worst;
  for (std::int64_t group = 0; group < problem.groups; ++group) {
    if (rows.size(group) == 0) continue;
    const auto index = static_cast<std::size_t>(group);
    const ProductClaim exact{d.of(group), a.exact[index], b.exact[index], d.old(group)};
    if (!is_fp8(problem.a.dtype)) {
      worst.add(group, judge_float_product("d", exact, judge));
      continue;
    }
    worst.add(group, {judge_g1("d", exact, {problem.a.dtype, problem.b.dtype}, judge)});
    worst.add(group,
              judge_kernel("d", {d.of(group), a.quantized[index], b.quantized[index], d.old(group)},
                           judge));
  }
  worst.move_to(report);
  d.judge_memory("d", report);
  return report;
}

}  // namespace

GateReport check_grouped_gemm(const GroupedGemmProblem& problem, const DataOptions& options) {
  const GroupedGemmPlan plan = plan_grouped_gemm(problem, {options.backend, options.threads});
  return within_memory("grouped_gemm", describe(problem),
                       [&] { return judge_grouped_gemm(problem, options, plan); });
}

}  // namespace octet
