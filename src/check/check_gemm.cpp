#include "check/decode.hpp"
#include "check/trial.hpp"

namespace octet {
namespace {

// One operand: what it was made of, and what the product reads.
struct Operand {
  Tensor source;  // bf16 where it is quantised afterwards
  QuantizedTensor quantized;
  QuantizedView exact;  // [rows, K], before quantisation
  QuantizedView given;  // [rows, K], the argument of gemm
};

Operand make_operand(const GemmOperand& kind, std::int64_t rows, std::int64_t k,
                     std::uint32_t stream, const GateOptions& options) {
  Operand operand;
  if (!is_fp8(kind.dtype)) {
    const bool k_major = kind.major == Major::k;
    operand.source =
        random_matrix(kind.dtype, k_major ? rows : k, k_major ? k : rows, stream, options);
    operand.exact = k_major ? operand.source.view() : transposed(operand.source.view());
    operand.given = operand.exact;
    return operand;
  }
  operand.source = random_matrix(Dtype::bf16, rows, k, stream, options);
  operand.exact = operand.source.view();
  const OracleTensor oracle =
      quantize_oracle(operand.source, {kind.dtype, kind.block}, options.threads);
  operand.quantized = in_our_layout(oracle.view());
  operand.given = operand.quantized.view();
  return operand;
}

}  // namespace

GateReport check_gemm(const GemmProblem& problem, const GateOptions& options) {
  const GemmPlan plan = plan_gemm(problem, {options.gemm_backend, options.threads});
  require_cpu("check gemm", problem.device);
  const Operand a = make_operand(problem.a, problem.m, problem.k, 0, options);
  const Operand b = make_operand(problem.b, problem.n, problem.k, 1, options);
  GuardedMatrix first(problem.out, problem.m, problem.n, 0);
  GuardedMatrix second(problem.out, problem.m, problem.n, kRowGap);
  Tensor old;
  if (problem.accumulate) {
    old = random_matrix(problem.out, problem.m, problem.n, 2, options);
    first.fill_from(old);
    second.fill_from(old);
  }
  run_once(plan, GemmArgs{a.given, b.given, first.view()});
  run_once(plan, GemmArgs{a.given, b.given, second.view()});

  const JudgeOptions judge = judge_options(options, problem.device);
  GateReport report;
  if (is_fp8(problem.a.dtype)) {
    report.results.push_back(judge_g1("d", {first.view(), a.exact, b.exact, old.view()},
                                      {problem.a.dtype, problem.b.dtype}, judge));
    add(report, judge_kernel("d", {first.view(), a.given, b.given, old.view()}, judge));
  } else {
    add(report, judge_float_product("d", {first.view(), a.given, b.given, old.view()}, judge));
  }
  report.results.push_back(judge_g5("d", first.view(), second.view()));
  report.results.push_back(judge_g6("d", first.inspect(), second.inspect()));
  return report;
}

}  // namespace octet
