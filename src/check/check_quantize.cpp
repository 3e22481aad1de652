#include "check/judge_quantizer.hpp"
#include "check/trial.hpp"

namespace octet {
namespace {

// One copy, written by both calls: with padding of its own, and among memory that is not its.
struct Copy {
  TensorView input;
  OracleRules rules;
  GuardedQuantized first;
  GuardedQuantized second;

  Copy(const TensorView& input_, const QuantizeProblem& problem, BlockShape block)
      : Copy(QuantizedLayout(input_.rows(), input_.cols(), problem.format, block), input_,
             {problem.format, block, problem.amax_floor, problem.pow2_scales}) {}

  void judge(const char* tensor, const JudgeOptions& options, GateReport& report) const {
    report.results.push_back(judge_quantizer(tensor, first.view(), input, rules, options));
    report.results.push_back(judge_g5(tensor, first.view(), second.view()));
    report.results.push_back(judge_g6(tensor, first.inspect(), second.inspect()));
  }

 private:
  Copy(const QuantizedLayout& layout, const TensorView& input_, const OracleRules& rules_)
      : input(input_),
        rules(rules_),
        first(layout, true, input_.device),
        second(layout, false, input_.device) {}
};

GateReport judge_quantize(const QuantizeProblem& problem, const GateOptions& options,
                          const QuantizePlan& plan) {
  const Tensor input =
      random_matrix(problem.input, problem.rows, problem.cols, 0, options, problem.device);
  std::optional<Copy> out;
  std::optional<Copy> turned;
  QuantizeArgs first{input, {}, {}};
  QuantizeArgs second{input, {}, {}};
  if (problem.block) {
    out.emplace(input, problem, *problem.block);
    first.out = out->first.view();
    second.out = out->second.view();
  }
  if (problem.transposed_block) {
    turned.emplace(transposed(input.view()), problem, *problem.transposed_block);
    first.transposed = turned->first.view();
    second.transposed = turned->second.view();
  }
  run_once(plan, first, problem.device);
  run_once(plan, second, problem.device);
  const JudgeOptions judge = judge_options(options, problem.device);
  GateReport report;
  if (out) out->judge("out", judge, report);
  if (turned) turned->judge("transposed", judge, report);
  return report;
}

}  // namespace

GateReport check_quantize(const QuantizeProblem& problem, const GateOptions& options) {
  const QuantizePlan plan = plan_quantize(problem, {options.quantize_backend, options.threads});
  return within_memory("quantize", describe(problem),
                       [&] { return judge_quantize(problem, options, plan); });
}

}  // namespace octet
