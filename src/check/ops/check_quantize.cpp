// quantize: both copies against the oracle.
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"

namespace octet {
namespace {

GateReport judge_quantize(const QuantizeProblem& problem, const DataOptions& options,
                          const QuantizePlan& plan) {
  const Tensor input =
      random_matrix(problem.input_dtype, problem.rows, problem.cols, 0, options, problem.device);
  const Fp8WrittenTwice written({problem.format, problem.block, problem.transposed_block,
                                 problem.amax_floor, problem.pow2_scales},
                                problem.rows, problem.cols, problem.device);
  for (int call = 0; call < 2; ++call) {
    const Fp8Copies copies = written.copies(call);
    run_once(plan, QuantizeArgs{input, copies.out, copies.transposed}, problem.device);
  }
  GateReport report;
  written.judge("", input, judge_options(options, problem.device), report);
  return report;
}

}  // namespace

GateReport check_quantize(const QuantizeProblem& problem, const DataOptions& options) {
  const QuantizePlan plan = plan_quantize(problem, {options.backend, options.threads});
  return within_memory("quantize", describe(problem),
                       [&] { return judge_quantize(problem, options, plan); });
}

}  // namespace octet
