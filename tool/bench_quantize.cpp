// octet bench quantize: bytes over time of a cast, beside a copy of as many bytes.
#include "commands.hpp"
#include "console.hpp"
#include "gate_table.hpp"
#include "layer.hpp"
#include "quantize_options.hpp"
#include "quantize_row.hpp"
#include "result_file.hpp"
#include "timing_options.hpp"

#include "bench/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace octet::tool {
namespace {

struct BenchQuantizeOptions {
  QuantizeOptions quantize;
  TimingOptions timing;
};

void run_case(QuantizeRow& row, const bench::Protocol& protocol, const GateOptions& gates) {
  try {
    const GateReport report = check_quantize(row.problem, gates);
    row.check = report.pass() ? "PASS" : "FAIL";
    row.note = failed_gates(report);
    if (!report.pass()) return;
    bench::QuantizeWorkload& workload = *row.workload;
    workload.allocate(std::int64_t{protocol.warmup} + protocol.iterations + 2 * protocol.rounds);
    row.times = bench::compare({[&](std::int64_t i) { workload.quantize(i); }},
                               {[&](std::int64_t i) { workload.copy(i); }}, protocol,
                               bench::steady_clock());
    if (row.times->ours.spread() > bench::kNoisySpread) row.note = "noisy";
  } catch (const std::exception& error) {
    row.check = "ERROR";
    row.note = error.what();
    std::replace(row.note.begin(), row.note.end(), '\n', ' ');
  }
}

std::vector<QuantizeRow> plan_cases(const BenchQuantizeOptions& options) {
  std::vector<QuantizeRow> rows;
  for (const QuantizeProblem& problem : chosen_problems(options.quantize)) {
    QuantizeRow row;
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

// The exit status.
int print_summary(const std::vector<QuantizeRow>& rows, std::size_t done) {
  std::vector<CsvRow> table{quantize_table_header()};
  std::vector<double> ratios;
  std::size_t counts[3] = {0, 0, 0};
  for (std::size_t i = 0; i < done; ++i) {
    table.push_back(quantize_table_fields(rows[i]));
    if (rows[i].times) ratios.push_back(rows[i].times->ratio);
    ++counts[rows[i].check == "PASS" ? 0 : rows[i].check == "FAIL" ? 1 : 2];
  }
  print_table(table, 4);
  for (std::size_t i = 0; i < done; ++i) {
    if (rows[i].check == "PASS") continue;
    fmt::print("{}: {}\n  repeat with: octet check {}\n", rows[i].check, rows[i].note,
               rows[i].arguments);
  }
  if (!ratios.empty()) {
    fmt::print("score: {:.3f} of a memcpy of the same bytes, the geometric mean\n",
               bench::geometric_mean(ratios));
  }
  fmt::print("{} PASS, {} FAIL, {} ERROR\n", counts[0], counts[1], counts[2]);
  if (done < rows.size()) {
    fmt::print("{} of {} cases were not begun: --max-seconds is over\n", rows.size() - done,
               rows.size());
  }
  return counts[0] == done ? 0 : kExitFailed;
}

int bench_quantize(const BenchQuantizeOptions& options) {
  const RunClock run_clock(options.timing.max_seconds);
  const bench::Protocol protocol = make_protocol(options.timing, 1);
  std::vector<QuantizeRow> rows = plan_cases(options);
  ResultFile file(options.timing.output, quantize_header());
  Progress progress(rows.size());
  std::size_t done = 0;
  while (done < rows.size() && !run_clock.is_over()) {
    QuantizeRow& row = rows[done];
    progress.show(done, fmt::format("{}x{}", row.problem.rows, row.problem.cols));
    run_case(row, protocol, gate_options(row.data));
    row.workload.reset();
    ++done;
    file.add(quantize_fields(row, done));
  }
  progress.clear();
  file.finish();
  return print_summary(rows, done);
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
