// gemm, with FP8 operands and their scales and with plain operands.
#include "check/judge/trial.hpp"
#include "check/reference/decode.hpp"
#include "core/views.hpp"

namespace octet {
namespace {

// One operand: its source, and what the product reads.
struct Operand {
  Tensor source;  // bf16 if it is quantised afterwards
  QuantizedOperand quantized;
  QuantizedTensor in_our_layout;  // a copy of the oracle's
  QuantizedView exact;            // [rows, K], before quantisation
  QuantizedView given;            // [rows, K], the argument of gemm
};

Operand make_operand(const char* tensor, const GemmOperand& kind, std::int64_t rows, std::int64_t k,
                     std::uint32_t stream, const DataOptions& options, Device device,
                     GateReport& report) {
  Operand operand;
  if (!is_fp8(kind.dtype)) {
    const bool k_major = kind.major == Major::k;
    operand.source =
        random_matrix(kind.dtype, k_major ? rows : k, k_major ? k : rows, stream, options, device);
    operand.exact = k_major ? operand.source.view() : transposed(operand.source.view());
    operand.given = operand.exact;
    return operand;
  }
  operand.source = random_matrix(Dtype::bf16, rows, k, stream, options, device);
  operand.exact = operand.source.view();
  operand.quantized = QuantizedOperand(tensor, operand.source, Transpose::no,
                                       {kind.dtype, kind.block}, options, report);
  operand.given = operand.quantized.view();
  if (device.type == DeviceType::cpu) {
    operand.in_our_layout = in_our_layout(operand.given);
    operand.given = operand.in_our_layout.view();
  }
  return operand;
}

GateReport judge_gemm(const GemmProblem& problem, const DataOptions& options,
                      const GemmPlan& plan) {
  const Device device = problem.device;
  GateReport report;
  const Operand a =
      make_operand("quantised a", problem.a, problem.m, problem.k, 0, options, device, report);
  const Operand b =
      make_operand("quantised b", problem.b, problem.n, problem.k, 1, options, device, report);
  GuardedMatrix first(problem.out_dtype, problem.m, problem.n, 0, device);
  GuardedMatrix second(problem.out_dtype, problem.m, problem.n, options.row_gap, device);
  Tensor old;
  if (problem.accumulate) {
    old = random_matrix(problem.out_dtype, problem.m, problem.n, 2, options, device);
    first.fill_from(old);
    second.fill_from(old);
  }
  Tensor bias;  // [1, N]
  if (problem.bias_dtype) {
    bias = random_matrix(*problem.bias_dtype, 1, problem.n, 3, options, device);
  }
  const TensorView bias_vector = as_vector(bias.view());
  run_once(plan, GemmArgs{a.given, b.given, first.view(), bias_vector}, device);
  run_once(plan, GemmArgs{a.given, b.given, second.view(), bias_vector}, device);
  // Added to the product: the old output or the bias, never both.
  const TensorView added = problem.bias_dtype ? repeated(bias.view(), problem.m) : old.view();

  const JudgeOptions judge = judge_options(options, device);
  if (is_fp8(problem.a.dtype)) {
    report.results.push_back(judge_g1("d", {first.view(), a.exact, b.exact, added},
                                      {.a = problem.a.dtype,
                                       .b = problem.b.dtype,
                                       .mx = is_mx(problem.a.block),
                                       .saturates = is_mx(problem.a.block)},
                                      judge));
    add(report, judge_kernel("d", {first.view(), a.given, b.given, added}, judge));
    if (problem.fast_accumulation) explain_fast_accumulation(judge, report);
  } else {
    add(report, judge_float_product("d", {first.view(), a.given, b.given, added}, judge));
  }
  judge_memory("d", first, second, report);
  return report;
}

}  // namespace

GateReport check_gemm(const GemmProblem& problem, const DataOptions& options) {
  const GemmPlan plan = plan_gemm(problem, {options.backend, options.threads});
  return within_memory("gemm", describe(problem),
                       [&] { return judge_gemm(problem, options, plan); });
}

}  // namespace octet
