// quantize: both copies against the oracle; those of a batch matrix by matrix, those of groups group
// by group.
#include "check/judge/trial.hpp"
#include "check/judge/written_groups.hpp"
#include "check/judge/written_twice.hpp"
#include "core/views.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <cstring>

namespace octet {
namespace {

template <class Written>
void run_twice(const QuantizePlan& plan, const Written& written, QuantizeArgs args) {
  for (int call = 0; call < 2; ++call) {
    const Fp8Copies copies = written.copies(call);
    args.out = copies.out;
    args.transposed = copies.transposed;
    run_once(plan, args, plan.problem.device);
  }
}

GateReport judge_matrix(const QuantizeProblem& problem, const DataOptions& options,
                        const QuantizePlan& plan) {
  const Tensor input =
      random_matrix(problem.input_dtype, problem.rows, problem.cols, 0, options, problem.device);
  OracleRules rules;
  if (problem.given_scales) rules.given_scale = kGivenScale;
  rules.mx_scale = problem.mx_scale;
  rules.fold_mx = problem.fold_mx;
  const Fp8WrittenTwice written(options_of(problem), problem.rows, problem.cols, problem.device,
                                rules);
  run_twice(plan, written, {input, {}, {}});
  GateReport report;
  written.judge("", input, judge_options(options, problem.device), report);
  return report;
}

GateReport judge_batch(const QuantizeProblem& problem, const DataOptions& options,
                       const QuantizePlan& plan) {
  const Tensor rows = random_matrix(problem.input_dtype, problem.batch * problem.rows, problem.cols,
                                    0, options, problem.device);
  const TensorView input = make_view(rows.data(), problem.input_dtype,
                                     {problem.batch, problem.rows, problem.cols}, problem.device);
  const Fp8BatchWrittenTwice written(options_of(problem), problem.batch, problem.rows, problem.cols,
                                     problem.device);
  run_twice(plan, written, {input, {}, {}});
  GateReport report;
  written.judge(input, judge_options(options, problem.device), report);
  return report;
}

// What groups read: [rows, cols], or [source_rows, cols] and the source.
struct GroupInput {
  Tensor input;
  std::vector<std::int32_t> source;  // empty if rows are not gathered
  std::int64_t slots = 1;            // of each row of the input
  Tensor source_there;               // the same on the device

  GroupInput(const QuantizeProblem& problem, const std::vector<std::int64_t>& sizes,
             const DataOptions& options)
      : input(random_matrix(problem.input_dtype,
                            problem.source_rows > 0 ? problem.source_rows : problem.rows,
                            problem.cols, 0, options, problem.device)) {
    if (problem.source_rows == 0) return;
    slots = slots_per_row(problem);
    source = draw_source(sizes, problem.rows, source_slots(problem), options.seed);
    source_there = Tensor(Dtype::i32, {problem.rows}, problem.device);
    copy(make_view(source.data(), Dtype::i32, {problem.rows}), source_there);
  }

  // The rows of the groups, one after the other.
  Tensor gathered(std::int64_t rows) const {
    const TensorView& view = input.view();
    const Tensor host(view.dtype, {view.rows(), view.cols()});
    copy(view, host);
    Tensor result(view.dtype, {rows, view.cols()});
    const auto bytes = static_cast<std::size_t>(view.cols() * size_bytes(view.dtype));
    for (std::size_t r = 0; r < source.size(); ++r) {
      if (source[r] < 0) continue;
      const auto from = static_cast<std::size_t>(source[r] / slots);
      std::memcpy(static_cast<char*>(result.data()) + r * bytes,
                  static_cast<const char*>(host.data()) + from * bytes, bytes);
    }
    return result;
  }
};

GateReport judge_groups(const QuantizeProblem& problem, const DataOptions& options,
                        const QuantizePlan& plan) {
  const std::vector<std::int64_t> sizes =
      group_sizes(options.group_spread, problem.groups, problem.rows, options.seed);
  const Tensor table = make_group_table(sizes, problem.rows, problem.device);
  const GroupInput given(problem, sizes, options);
  const Fp8GroupsWrittenTwice written(options_of(problem), sizes, problem.rows, problem.cols,
                                      problem.tail, problem.device);
  run_twice(plan, written, {given.input, {}, {}, table, given.source_there});
  GateReport report;
  const Tensor rows = given.source.empty() ? Tensor() : given.gathered(problem.rows);
  written.judge("", given.source.empty() ? given.input.view() : rows.view(),
                judge_options(options, problem.device), report);
  return report;
}

}  // namespace

GateReport check_quantize(const QuantizeProblem& problem, const DataOptions& options) {
  const QuantizePlan plan = plan_quantize(problem, {options.backend, options.threads});
  auto* const judge = problem.batch > 0    ? judge_batch
                      : problem.groups > 0 ? judge_groups
                                           : judge_matrix;
  return within_memory("quantize", describe(problem),
                       [&] { return judge(problem, options, plan); });
}

}  // namespace octet
