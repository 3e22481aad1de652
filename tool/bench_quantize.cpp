// octet bench quantize: bytes over time of a cast, beside a copy of as many bytes.
#include "commands.hpp"
#include "gate_table.hpp"
#include "layer.hpp"
#include "quantize_options.hpp"
#include "quantize_row.hpp"
#include "run_plan.hpp"

#include "bench/device_timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace octet::tool {
namespace {

struct BenchQuantizeOptions {
  QuantizeOptions quantize;
  TimingOptions timing;
};

void time_case(QuantizeRow& row, const bench::Protocol& protocol) {
  bench::QuantizeWorkload& workload = *row.workload;
  bench::DeviceTiming timing(row.problem.device);
  workload.set_stream(timing.stream());
  workload.allocate(bench::most_calls(protocol));
  row.times = timing.compare({[&](std::int64_t i) { workload.quantize(i); }},
                             {[&](std::int64_t i) { workload.copy(i); }}, protocol);
  row.gpu = row.times->ours.gpu;
  row.note = row.times->ours.note();
}

void run_case(QuantizeRow& row, const bench::Protocol& protocol) {
  try {
    const GateReport report = check_quantize(row.problem, gate_options(row.data));
    row.check = report.pass() ? "PASS" : "FAIL";
    row.note = failed_gates(report);
    if (report.pass()) time_case(row, protocol);
  } catch (const std::exception& error) {
    row.check = "ERROR";
    row.note = error.what();
    std::replace(row.note.begin(), row.note.end(), '\n', ' ');
    row.times.reset();
  }
  row.workload.reset();
}

std::vector<QuantizeRow> plan_cases(const BenchQuantizeOptions& options) {
  std::vector<QuantizeRow> rows;
  for (const QuantizeProblem& problem : chosen_problems(options.quantize)) {
    QuantizeRow row;
    row.test_id = rows.size() + 1;
    row.problem = problem;
    row.data = data_options(options.quantize);
    row.timing_arguments = timing_arguments(options.timing);
    row.workload = std::make_unique<bench::QuantizeWorkload>(problem, row.data);
    row.arguments = describe(problem) + data_arguments(options.quantize);
    row.implementation = row.workload->plan().implementation;
    row.configuration = row.workload->plan().configuration;
    row.bytes = row.workload->bytes();
    rows.push_back(std::move(row));
  }
  return rows;
}

int bench_quantize(const BenchQuantizeOptions& options) {
  check_timing_options(options.timing);
  const RunClock run_clock(options.timing.max_seconds);
  std::vector<QuantizeRow> cases = plan_cases(options);
  std::vector<CsvRow> planned_rows;
  std::vector<std::string> repeats;
  for (const QuantizeRow& row : cases) {
    planned_rows.push_back(quantize_fields(row));
    repeats.push_back("octet check " + row.arguments);
  }
  ResultFile file(options.timing.output, quantize_header(), planned_rows, options.timing.fresh);
  run_cases(
      file, result_kind("quantize"), options.timing, run_clock,
      [&](std::size_t i) {
        return fmt::format("{}x{}", cases[i].problem.rows, cases[i].problem.cols);
      },
      [&](std::size_t i) {
        run_case(cases[i], make_protocol(options.timing, cases[i].problem.device, 1));
        return quantize_fields(cases[i]);
      });
  return print_quantize_summary(file.rows(), repeats);
}

}  // namespace

void add_bench_quantize(CLI::App& bench, Chosen& chosen) {
  CLI::App* app = bench.add_subcommand("quantize", "block-scaled casts to FP8");
  const auto options = std::make_shared<BenchQuantizeOptions>();
  add_quantize_options(*app, options->quantize);
  add_timing_options(*app, options->timing);
  choose_when_given(*app, chosen, [options] { return bench_quantize(*options); });
}

}  // namespace octet::tool
