#include "check/trial.hpp"

namespace octet {
namespace {

// One copy, written by both calls: with padding of its own, and among memory that is not its.
struct Copy {
  GuardedQuantized first;
  GuardedQuantized second;
  OracleTensor wanted;

  Copy(const TensorView& input, const QuantizeProblem& problem, BlockShape block, int threads)
      : Copy(QuantizedLayout(input.rows(), input.cols(), problem.format, block), input,
             {problem.format, block, problem.amax_floor, problem.pow2_scales}, threads) {}

  void judge(const char* tensor, GateReport& report) const {
    report.results.push_back(judge_quantized(tensor, first.view(), wanted.view()));
    report.results.push_back(judge_g5(tensor, first.view(), second.view()));
    report.results.push_back(judge_g6(tensor, first.inspect(), second.inspect()));
  }

 private:
  Copy(const QuantizedLayout& layout, const TensorView& input, const OracleRules& rules,
       int threads)
      : first(layout, true),
        second(layout, false),
        wanted(quantize_oracle(input, rules, threads)) {}
};

}  // namespace

GateReport check_quantize(const QuantizeProblem& problem, const GateOptions& options) {
  const QuantizePlan plan = plan_quantize(problem, {options.quantize_backend, options.threads});
  require_cpu("check quantize", problem.device);
  const Tensor input = random_matrix(problem.input, problem.rows, problem.cols, 0, options);
  std::optional<Copy> out;
  std::optional<Copy> turned;
  QuantizeArgs first{input, {}, {}};
  QuantizeArgs second{input, {}, {}};
  if (problem.block) {
    out.emplace(input, problem, *problem.block, options.threads);
    first.out = out->first.view();
    second.out = out->second.view();
  }
  if (problem.transposed_block) {
    turned.emplace(transposed(input.view()), problem, *problem.transposed_block, options.threads);
    first.transposed = turned->first.view();
    second.transposed = turned->second.view();
  }
  run_once(plan, first);
  run_once(plan, second);
  GateReport report;
  if (out) out->judge("out", report);
  if (turned) turned->judge("transposed", report);
  return report;
}

}  // namespace octet
