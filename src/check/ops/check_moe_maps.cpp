// moe_maps, against a stable sort, and the table against group_table.
#include "check/data/expert_maps.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "core/checks.hpp"

#include <limits>

namespace octet {
namespace {

std::vector<std::int32_t> table_of(const MoeMapsProblem& problem,
                                   const std::vector<std::int32_t>& sizes) {
  std::vector<std::int32_t> words(
      static_cast<std::size_t>(group_table_words(problem.groups, problem.rows)));
  const Tensor table(Dtype::i32, {std::ssize(words)});
  run(plan_group_table({.groups = problem.groups, .rows = problem.rows}),
      {make_view(sizes.data(), Dtype::i32, {problem.groups}), table});
  copy(table, make_view(words.data(), Dtype::i32, {std::ssize(words)}));
  return words;
}

GateResult judge_status(const TensorView& status, const ExpertMaps& wanted) {
  const MoeMapsReport report = read_moe_maps(status);
  const bool pass =
      report.dropped == wanted.dropped && report.cut == wanted.cut && report.bad_indices == 0;
  return {"E2",
          "status",
          pass,
          text(report.dropped, " dropped, ", report.cut, " cut"),
          text(wanted.dropped, " dropped, ", wanted.cut, " cut"),
          std::numeric_limits<double>::quiet_NaN()};
}

GateReport judge_moe_maps(const MoeMapsProblem& problem, const DataOptions& options) {
  const std::vector<std::int32_t> experts =
      random_experts(problem.tokens * problem.top_k, problem.experts, AbsentSlots::some, options);
  const Tensor indices = integer_tensor(experts, problem.indices_dtype,
                                        {problem.tokens, problem.top_k}, problem.device);
  const IntegersTwice row_of(problem.tokens, problem.top_k, options.row_gap, problem.device);
  const IntegersTwice source(problem.rows, problem.device);
  const IntegersTwice sizes(problem.groups, problem.device);
  const IntegersTwice table(group_table_words(problem.groups, problem.rows), problem.device);
  const IntegersTwice status(kMoeMapsStatusWords, problem.device);
  const MoeMapsPlan plan = plan_moe_maps(problem, {options.backend, options.threads});
  for (int call = 0; call < 2; ++call) {
    run_once(plan,
             MoeMapsArgs{indices, row_of.view(call), source.view(call), sizes.view(call),
                         table.view(call), status.view(call)},
             problem.device);
  }
  const ExpertMaps wanted = sorted_by_expert(
      experts, {problem.first_expert, problem.groups, problem.rows, problem.capacity});
  GateReport report;
  row_of.judge("row_of", wanted.row_of, report);
  source.judge("source", wanted.source, report);
  sizes.judge("sizes", wanted.sizes, report);
  table.judge("table", table_of(problem, wanted.sizes), report);
  report.results.push_back(judge_status(status.view(0), wanted));
  return report;
}

}  // namespace

GateReport check_moe_maps(const MoeMapsProblem& problem, const DataOptions& options) {
  check_extent("check moe_maps", "tokens", problem.tokens);
  // A plan refuses what cannot run before any data is made.
  (void)plan_moe_maps(problem, {options.backend, options.threads});
  return within_memory("moe_maps", describe(problem),
                       [&] { return judge_moe_maps(problem, options); });
}

}  // namespace octet
