// octet bench and octet check of an operator that a StepOp describes: its gates, then its times
// beside those of a copy of as many bytes or of the unfused chain, a row each.
#include "tool/bench/bench_step.hpp"

#include "tool/console.hpp"
#include "tool/bench/forced_backends.hpp"
#include "tool/bench/gate_table.hpp"
#include "tool/operators/layer.hpp"
#include "tool/bench/step_row.hpp"
#include "tool/bench/run_plan.hpp"

#include "bench/timing/device_timing.hpp"
#include "bench/report/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octet::tool {
namespace {

// Of one case on the CPU, forward and backward together.
constexpr double kCpuSeconds = 1;

struct BenchStep {
  std::unique_ptr<StepOp> op;
  TimingOptions timing;
};

void time_case(StepRow& row, const bench::Protocol& protocol) {
  const auto workload = row.step_case.workload(row.data);
  bench::DeviceTiming timing(row.step_case.device);
  workload->set_stream(timing.stream());
  workload->allocate(bench::most_calls(protocol));
  if (const bench::Task peer = workload->peer(); !peer.empty()) {
    row.comparison = timing.compare(workload->task(), peer, protocol);
    row.times = row.comparison->ours;
  } else {
    row.times = timing.measure(workload->task(), protocol);
  }
  row.note = row.times->note();
}

// Whatever goes wrong with one case is its row's ERROR; the others are still run.
void run_case(StepRow& row, const bench::Protocol& protocol) {
  try {
    row.gates = row.step_case.check(gate_options(row.data));
    row.check = row.gates.pass() ? "PASS" : "FAIL";
    row.note = failed_gates(row.gates);
    if (row.gates.pass()) time_case(row, protocol);
  } catch (const std::exception& error) {
    row.check = "ERROR";
    row.note = error.what();
    std::replace(row.note.begin(), row.note.end(), '\n', ' ');
    row.times.reset();
    row.comparison.reset();
  }
}

std::vector<StepRow> plan_cases(const BenchStep& bench) {
  std::vector<StepRow> rows;
  for (const StepCase& one : bench.op->chosen_cases()) {
    StepRow row;
    row.test_id = rows.size() + 1;
    row.op = bench.op->name();
    row.step_case = one;
    row.arguments = one.arguments + bench.op->data_arguments();
    row.timing_arguments = timing_arguments(bench.timing);
    row.data = bench.op->data_options();
    const auto workload = one.workload(row.data);
    row.calls = workload->calls();
    row.peer_calls = workload->peer_calls();
    rows.push_back(std::move(row));
  }
  return rows;
}

int print_summary(const StepLayout& layout, const std::vector<std::optional<bench::Row>>& rows,
                  const std::vector<std::string>& repeats) {
  const std::vector<bench::Row> done = done_rows(rows);
  print_table(layout.table(layout.header, done), layout.left_columns);
  print_failures(layout.header, rows, layout.name_column, repeats);
  for (const StepLayout::Score& score : layout.scores) {
    const double mean = bench::geometric_mean_of(layout.header, done, score.column);
    if (!std::isnan(mean)) fmt::print(fmt::runtime(score.text), mean);
  }
  return print_counts(layout.header, rows);
}

// Of a GPU the planning is left to the run: it would open it.
std::vector<BenchCase> check_cases(const BenchStep& bench) {
  check_timing_options(bench.timing);
  std::vector<BenchCase> cases;
  for (const StepCase& one : bench.op->chosen_cases()) {
    if (one.device.type == DeviceType::cpu) one.workload(bench.op->data_options());
    cases.push_back(
        {std::to_string(cases.size() + 1), one.name,
         with_forced_backends("octet bench " + one.arguments + bench.op->data_arguments() +
                              timing_arguments(bench.timing))});
  }
  return cases;
}

int bench_step(const BenchStep& bench) {
  check_timing_options(bench.timing);
  const RunClock run_clock(bench.timing.max_seconds);
  const StepLayout& layout = layout_of(bench.op->rows());
  std::vector<StepRow> cases = plan_cases(bench);
  std::vector<bench::Row> planned_rows;
  std::vector<std::string> repeats;
  for (const StepRow& row : cases) {
    planned_rows.push_back(layout.fields(row));
    repeats.push_back(with_forced_backends("octet check " + row.arguments));
  }
  ResultFile file(bench.timing.output, layout.header, planned_rows, bench.timing.fresh);
  run_cases(
      file, result_kind(bench.op->name()), bench.timing, run_clock,
      [&](std::size_t i) { return cases[i].step_case.arguments; },
      [&](std::size_t i) {
        run_case(cases[i], make_protocol(bench.timing, cases[i].step_case.device, kCpuSeconds));
        return layout.fields(cases[i]);
      });
  return print_summary(layout, file.rows(), repeats);
}

int check_step(const StepOp& op) {
  const std::vector<StepCase> cases = op.chosen_cases();
  const bench::WorkloadOptions data = op.data_options();
  for (const StepCase& one : cases) one.workload(data);
  GateTally tally;
  for (const StepCase& one : cases) {
    tally.add("octet check " + one.arguments + op.data_arguments(), one.check(gate_options(data)));
  }
  return tally.finish();
}

}  // namespace

void add_bench_step(CLI::App& bench, Chosen& chosen, std::unique_ptr<StepOp> op) {
  CLI::App* app = bench.add_subcommand(op->name(), op->about());
  const auto options = std::make_shared<BenchStep>(BenchStep{std::move(op), {}});
  options->op->add_options(*app, true);
  add_timing_options(*app, options->timing);
  choose_when_given(
      *app, chosen, [options] { return bench_step(*options); },
      [options] { return check_cases(*options); });
}

void add_check_step(CLI::App& check, Chosen& chosen, std::unique_ptr<StepOp> op) {
  CLI::App* app = check.add_subcommand(op->name(), op->about());
  const std::shared_ptr<StepOp> shared = std::move(op);
  shared->add_options(*app, false);
  choose_when_given(*app, chosen, [shared] { return check_step(*shared); });
}

}  // namespace octet::tool
