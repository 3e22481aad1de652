// repack, from dense rows or columns and from others with gaps that begin anywhere.
#include "check/data/guarded.hpp"
#include "check/data/random_codes.hpp"
#include "check/judge/trial.hpp"

namespace octet {
namespace {

GateReport judge_repack(const RepackProblem& problem, const DataOptions& options,
                        const RepackPlan& plan) {
  const std::int64_t length = options.transposed_source ? problem.rows : problem.cols;
  const RandomCodes dense(problem.rows, problem.cols, problem.format, problem.block,
                          {options.transposed_source, length, 0}, options, problem.device);
  const RandomCodes spread(problem.rows, problem.cols, problem.format, problem.block,
                           {options.transposed_source, length + options.row_gap, 1}, options,
                           problem.device);
  const QuantizedLayout layout(problem.rows, problem.cols, problem.format, problem.block);
  const GuardedQuantized first(layout, true, problem.device);
  const GuardedQuantized second(layout, false, problem.device);
  run_once(plan, RepackArgs{dense.view(), first.view()}, problem.device);
  run_once(plan, RepackArgs{spread.view(), second.view()}, problem.device);
  GateReport report;
  report.results.push_back(judge_quantized("out", first.view(), dense.view()));
  judge_memory("out", first, second, report);
  return report;
}

}  // namespace

GateReport check_repack(const RepackProblem& problem, const DataOptions& options) {
  const RepackPlan plan = plan_repack(problem, {options.backend, options.threads});
  return within_memory("repack", describe(problem),
                       [&] { return judge_repack(problem, options, plan); });
}

}  // namespace octet
