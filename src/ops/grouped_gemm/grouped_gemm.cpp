#include "core/call.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <array>
#include <utility>

namespace octet {
namespace {

constexpr std::string_view kOp = "grouped_gemm";

bool over_rows(const GroupedGemmProblem& problem) { return problem.over == GroupedOver::rows; }

// Groups of rows have a scale per block of 128, whatever they hold.
void check_block_over_groups(const char* argument, const GemmOperand& operand) {
  if (!is_fp8(operand.dtype) || operand.block == kBlock1x128 || operand.block == kBlock128x128) {
    return;
  }
  fail(ErrorCode::unsupported, kOp, ": blocks of ", argument,
       " must be 1x128 or 128x128 over groups, got ", name(operand.block));
}

void check_blocks_of_groups(const GroupedGemmProblem& problem) {
  if (over_rows(problem)) {
    if (problem.a.block == kBlock128x128) {
      fail(
          ErrorCode::unsupported, kOp,
          ": over rows, blocks of a must be 1x128, got 128x128, which can have rows of two groups");
    }
    return;
  }
  for (const auto& [argument, operand] : {std::pair{"a", problem.a}, std::pair{"b", problem.b}}) {
    if (!is_fp8(operand.dtype) && operand.major != Major::mn) {
      fail(ErrorCode::unsupported, kOp, ": over the contraction, ", name(operand.dtype),
           " operands are read as they are, with contiguous columns: major of ", argument,
           " must be mn, got k");
    }
  }
}

// The weights, [groups, N, K]: FP8, or plain with one contiguous dimension.
void read_weights(Call& call, const GroupedGemmProblem& problem, const QuantizedView& b) {
  constexpr std::string_view kSpelling = "[groups, N, K]";
  const auto& [groups, n, k] = std::tie(problem.groups, problem.n, problem.k);
  if (is_fp8(problem.b.dtype)) {
    call.reads("b", b,
               QuantizedBatchForm{problem.b.dtype, groups, n, k, problem.b.block, kSpelling});
    return;
  }
  check_no_scales({kOp, "b"}, problem.b, b);
  if (problem.b.major == Major::k) {
    call.reads("b", b.values, TensorForm(problem.b.dtype, {groups, n, k}, kSpelling));
    return;
  }
  TensorView turned = b.values;  // [groups, K, N]
  if (turned.rank == 3) {
    std::swap(turned.shape[1], turned.shape[2]);
    std::swap(turned.strides[1], turned.strides[2]);
  }
  check_view({kOp, "b, with N and K exchanged (major mn),"}, turned,
             TensorForm(problem.b.dtype, {groups, k, n}, "[groups, K, N]"), call.device());
  call.reads_checked("b", b);
}

// An operand over the contraction: token blocks, or the rows as they are.
void read_tokens(Call& call, const GroupedGemmProblem& problem, const char* argument,
                 const GemmOperand& operand, const QuantizedView& view, std::int64_t features,
                 bool is_a) {
  if (is_fp8(operand.dtype)) {
    call.reads(argument, view,
               QuantizedBatchForm{operand.dtype, max_token_blocks(problem.groups, problem.rows),
                                  features, kTokenBlock, operand.block,
                                  is_a ? "[max_token_blocks(groups, rows), N, 128]"
                                       : "[max_token_blocks(groups, rows), K, 128]"});
    return;
  }
  check_no_scales({kOp, argument}, operand, view);
  call.reads(argument, view.values,
             MatrixForm{operand.dtype, problem.rows, features, is_a ? "[rows, N]" : "[rows, K]"});
}

}  // namespace

std::span<const GroupedGemmImplementation> grouped_gemm_implementations() {
  static const std::array list{kGroupedGemmCudaSm90Wgmma, kGroupedGemmCpuSimd,
                               kGroupedGemmCpuReference};
  return list;
}

void check_expected_rows(std::string_view op, std::int64_t expected_rows, std::int64_t rows) {
  if (expected_rows < 0 || expected_rows > rows) {
    refuse_argument(op, ": expected_rows must be 0 to rows = ", rows, ", got ", expected_rows);
  }
}

void check_grouped_sizes(std::string_view op, std::int64_t groups, std::int64_t rows,
                         std::int64_t n, std::int64_t k) {
  check_size(op, rows, k, Dtype::f32);
  check_size(op, rows, n, Dtype::f32);
  check_size(op, n, k, Dtype::f32);
  check_size(op, groups, n * k, Dtype::f32);
  const std::int64_t padded_rows = max_token_blocks(groups, rows) * kTokenBlock;
  check_size(op, padded_rows, n, Dtype::f32);
  check_size(op, padded_rows, k, Dtype::f32);
}

std::string describe(const GroupedGemmProblem& problem) {
  const bool untouched = over_rows(problem) && problem.tail == GroupTail::untouched;
  return text("grouped-gemm --over ", over_rows(problem) ? "rows" : "contraction", " --groups ",
              problem.groups, " --shape ", problem.rows, "x", problem.n, "x", problem.k, " --a ",
              describe_operand(problem.a), " --b ", describe_operand(problem.b), " --out ",
              name(problem.out_dtype), problem.accumulate ? " --accumulate" : "",
              untouched ? " --tail untouched" : "",
              problem.expected_rows != 0 ? text(" --expected-rows ", problem.expected_rows) : "",
              problem.max_multiprocessors != 0
                  ? text(" --max-multiprocessors ", problem.max_multiprocessors)
                  : "",
              " --device ", name(problem.device));
}

void check(const GroupedGemmProblem& problem) {
  if (problem.over != GroupedOver::rows && problem.over != GroupedOver::contraction) {
    refuse_argument(kOp, ": over must be rows or contraction, got ",
                    static_cast<std::int32_t>(problem.over));
  }
  check_groups(kOp, problem.groups, problem.rows);
  check_extent(kOp, "N", problem.n);
  check_extent(kOp, "K", problem.k);
  check_block_over_groups("a", problem.a);
  check_block_over_groups("b", problem.b);
  check_operands(kOp, problem.a, problem.b);
  check_blocks_of_groups(problem);
  check_output(kOp, problem.out_dtype, problem.accumulate);
  if (problem.accumulate && over_rows(problem)) {
    fail(ErrorCode::unsupported, kOp,
         ": accumulate adds up weight gradients, over the contraction; over rows, d is always "
         "overwritten");
  }
  check_tail(kOp, problem.tail);
  check_expected_rows(kOp, problem.expected_rows, problem.rows);
  check_count(kOp, "max_multiprocessors", problem.max_multiprocessors);
  check_grouped_sizes(kOp, problem.groups, problem.rows, problem.n, problem.k);
  check_device(kOp, problem.device);
}

void check(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const auto& [groups, rows, n, k] = std::tie(problem.groups, problem.rows, problem.n, problem.k);
  Call call(kOp, problem.device);
  if (over_rows(problem)) {
    read_operand(call, "a", problem.a, args.a, rows, k, "[rows, K]");
    read_weights(call, problem, args.b);
    read_table(call, args.table, groups, rows);
    call.writes("d", args.d, MatrixForm{problem.out_dtype, rows, n, "[rows, N]"});
  } else {
    read_tokens(call, problem, "a", problem.a, args.a, n, true);
    read_tokens(call, problem, "b", problem.b, args.b, k, false);
    read_table(call, args.table, groups, rows);
    call.writes("d", args.d, TensorForm(problem.out_dtype, {groups, n, k}, "[groups, N, K]"));
  }
  call.check_apart(workspace_bytes, workspace);
}

GroupedGemmPlan plan_grouped_gemm(const GroupedGemmProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(grouped_gemm_implementations(), problem,
                   make_request(kOp, precision(problem), describe(problem), options.backend),
                   options);
}

void run(const GroupedGemmPlan& plan, const GroupedGemmArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
