// octet bench gemm: the gates of every case, then its times, a row each; then a table and the
// score.
#include "commands.hpp"
#include "console.hpp"
#include "gate_table.hpp"
#include "gemm_row.hpp"
#include "result_file.hpp"
#include "timing_options.hpp"

#include "bench/f16_error.hpp"
#include "bench/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace octet::tool {
namespace {

struct BenchGemmOptions {
  GemmOptions gemm;
  TimingOptions timing;
  bool prequantized = false;
  std::string baseline;
};

// A case and what was planned for it.
struct Planned {
  GemmRow row;
  std::unique_ptr<bench::Workload> ours;
  std::unique_ptr<bench::Workload> peer;  // null without --baseline
};

// Of one case on the CPU: sixteen of them and their gates fit three minutes; a shape that was asked
// for by itself may take longer.
double default_seconds(const GemmOptions& options) { return options.shapes.empty() ? 1 : 5; }

std::string bench_command(const Layer& layer, const BenchGemmOptions& options) {
  std::string command = "octet bench gemm " + layer.arguments() + data_arguments(layer.data);
  if (options.prequantized) command += " --prequantized";
  if (!options.baseline.empty()) command += " --baseline " + options.baseline;
  return command + timing_arguments(options.timing);
}

// Throws octet::Error where a case cannot be planned: nothing has been run or written yet.
std::vector<Planned> plan_cases(const BenchGemmOptions& options) {
  std::vector<Planned> cases;
  for (const LayerCase& layer_case : chosen_cases(options.gemm)) {
    Planned planned;
    planned.row.layer = make_layer(layer_case, options.gemm);
    const Layer& layer = planned.row.layer;
    planned.ours = make_workload(layer, options.prequantized);
    if (!options.baseline.empty()) {
      planned.peer = bench::make_openblas_products(layer.shape(), layer.input(),
                                                   options.gemm.accumulate_dw, layer.data);
    }
    planned.row.implementation = planned.ours->implementation();
    planned.row.configuration = planned.ours->configuration();
    planned.row.baseline = options.baseline;
    planned.row.command = bench_command(layer, options);
    planned.row.check_command =
        "octet check gemm " + layer.arguments() + data_arguments(layer.data);
    cases.push_back(std::move(planned));
  }
  return cases;
}

bench::Task step_of(bench::Workload& workload) {
  return {[&workload](std::int64_t i) { workload.forward(i); },
          [&workload](std::int64_t i) { workload.backward(i); }};
}

void time_case(Planned& planned, const bench::Protocol& protocol) {
  const std::int64_t uses =
      std::int64_t{protocol.warmup} + protocol.iterations + 2 * protocol.rounds;
  planned.ours->allocate(uses);
  GemmRow& row = planned.row;
  if (planned.peer) {
    planned.peer->allocate(uses);
    row.comparison = bench::compare(step_of(*planned.ours), step_of(*planned.peer), protocol,
                                    bench::steady_clock());
    row.times = row.comparison->ours;
  } else {
    row.times = bench::measure(step_of(*planned.ours), protocol, bench::steady_clock());
  }
  if (row.times->spread() > bench::kNoisySpread) row.note = "noisy";
}

// Whatever goes wrong with one case is its row's ERROR; the others are still run.
void run_case(Planned& planned, const bench::Protocol& protocol) {
  GemmRow& row = planned.row;
  try {
    row.gates = run_gates(row.layer);
    row.check = row.gates.pass() ? "PASS" : "FAIL";
    row.note = failed_gates(row.gates);
    if (row.check == "PASS") {
      row.f16_snr_db =
          bench::f16_product_snr_db(row.layer.shape(), row.layer.input(), row.layer.data);
      time_case(planned, protocol);
    }
  } catch (const std::exception& error) {
    row.check = "ERROR";
    row.note = error.what();
    std::replace(row.note.begin(), row.note.end(), '\n', ' ');
    row.times.reset();
    row.comparison.reset();
  }
  planned.ours.reset();
  planned.peer.reset();
}

std::size_t count(const std::vector<Planned>& cases, std::size_t done, const char* check) {
  return static_cast<std::size_t>(
      std::count_if(cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(done),
                    [&](const Planned& planned) { return planned.row.check == check; }));
}

void print_summary(const std::vector<Planned>& cases, std::size_t done, bool with_baseline) {
  std::vector<CsvRow> table{gemm_table_header(with_baseline)};
  std::vector<double> rates;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < done; ++i) {
    const GemmRow& row = cases[i].row;
    table.push_back(gemm_table_fields(row, with_baseline));
    if (row.times) rates.push_back(row.step_tflops());
    if (row.comparison) ratios.push_back(row.comparison->ratio);
  }
  print_table(table, 2);
  for (std::size_t i = 0; i < done; ++i) {
    const GemmRow& row = cases[i].row;
    if (row.check == "PASS") continue;
    fmt::print("{} {}: {}\n  repeat with: {}\n", row.check, row.layer.layer.name(), row.note,
               row.check_command);
  }
  if (!rates.empty()) {
    fmt::print("score: {:.4g} TFLOPS, the geometric mean of Combined Step TFLOPS\n",
               bench::geometric_mean(rates));
  }
  if (!ratios.empty()) {
    fmt::print("ratio: {:.3f}, the geometric mean of {}'s time over ours\n",
               bench::geometric_mean(ratios), cases[0].row.baseline);
  }
  fmt::print("{} PASS, {} FAIL, {} ERROR\n", count(cases, done, "PASS"), count(cases, done, "FAIL"),
             count(cases, done, "ERROR"));
  if (done < cases.size()) {
    fmt::print("{} of {} cases were not begun: --max-seconds is over\n", cases.size() - done,
               cases.size());
  }
}

int bench_gemm(const BenchGemmOptions& options) {
  if (options.prequantized && options.gemm.dtype != "fp8") {
    refuse_usage("--prequantized goes with --dtype fp8, got --dtype {}", options.gemm.dtype);
  }
  const bool with_baseline = !options.baseline.empty();
  const RunClock run_clock(options.timing.max_seconds);
  const bench::Protocol protocol = make_protocol(options.timing, default_seconds(options.gemm));
  std::vector<Planned> cases = plan_cases(options);
  ResultFile file(options.timing.output, gemm_header(with_baseline));
  Progress progress(cases.size());
  std::size_t done = 0;
  while (done < cases.size() && !run_clock.is_over()) {
    progress.show(done, cases[done].row.layer.layer.name());
    run_case(cases[done], protocol);
    file.add(gemm_fields(cases[done].row, with_baseline));
    ++done;
  }
  progress.clear();
  file.finish();
  print_summary(cases, done, with_baseline);
  return count(cases, done, "PASS") == done ? 0 : kExitFailed;
}

}  // namespace

void add_bench_gemm(CLI::App& bench, Chosen& chosen) {
  CLI::App* app = bench.add_subcommand("gemm", "the linear layer: forward and backward");
  const auto options = std::make_shared<BenchGemmOptions>();
  add_gemm_options(*app, options->gemm);
  add_timing_options(*app, options->timing);
  add_flag(*app, "--prequantized", options->prequantized, "time the products alone");
  add_choice(*app, "--baseline", options->baseline, {"openblas"},
             "time a peer interleaved and report its time over ours");
  choose_when_given(*app, chosen, [options] { return bench_gemm(*options); });
  // `octet bench` alone does the main job.
  bench.callback([&bench, &chosen, options] {
    if (bench.get_subcommands().empty()) {
      chosen = {&bench, [options] { return bench_gemm(*options); }};
    }
  });
}

}  // namespace octet::tool
