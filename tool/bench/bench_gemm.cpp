// octet bench gemm: the gates of every case, then its times, a row each; then a table and the
// score.
#include "tool/commands.hpp"
#include "tool/bench/forced_backends.hpp"
#include "tool/bench/gate_table.hpp"
#include "tool/bench/gemm_row.hpp"
#include "tool/bench/gemm_summary.hpp"
#include "tool/operators/peer.hpp"
#include "tool/bench/run_plan.hpp"

#include "bench/timing/device_timing.hpp"
#include "bench/workloads/f16_error.hpp"

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
  std::unique_ptr<bench::Workload> peer;  // null without --baseline, or where it refuses the case
  std::string peer_refusal;
};

// Of one case on the CPU: sixteen of them and their gates fit three minutes; a shape that was asked
// for by itself may take longer.
double cpu_seconds(const GemmOptions& options) { return options.shapes.empty() ? 1 : 5; }

std::string bench_command(const Layer& layer, const BenchGemmOptions& options) {
  std::string command = "octet bench gemm " + layer.arguments() + data_arguments(layer.data);
  if (options.prequantized) command += " --prequantized";
  if (!options.baseline.empty()) command += " --baseline " + options.baseline;
  return with_forced_backends(command + timing_arguments(options.timing));
}

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Planned plan_case(const LayerCase& layer_case, const BenchGemmOptions& options) {
  Planned planned;
  planned.row.layer = make_layer(layer_case, options.gemm);
  const Layer& layer = planned.row.layer;
  planned.ours = make_workload(layer, options.prequantized);
  planned.row.implementation = planned.ours->implementation();
  planned.row.configuration = planned.ours->configuration();
  planned.row.baseline = options.baseline;
  planned.row.command = bench_command(layer, options);
  planned.row.check_command =
      with_forced_backends("octet check gemm " + layer.arguments() + data_arguments(layer.data));
  return planned;
}

// A peer that takes no case at all is an error of the command line; one that refuses some is not
// timed there.
void plan_peers(std::vector<Planned>& cases, const BenchGemmOptions& options) {
  std::optional<Error> refusal;
  bool any = false;
  for (Planned& planned : cases) {
    try {
      planned.peer = make_peer(options.baseline, planned.row.layer, options.prequantized,
                               options.gemm.accumulate_dw);
      any = true;
    } catch (const Error& error) {
      if (!refusal) refusal = error;
      planned.peer_refusal = "no baseline: " + in_one_line(error.what());
    }
  }
  if (!any) throw *refusal;  // NOLINT: there is one of every case
}

// Throws octet::Error where a case cannot be planned: nothing has been run or written yet.
std::vector<Planned> plan_cases(const BenchGemmOptions& options) {
  std::vector<Planned> cases;
  for (const LayerCase& layer_case : chosen_cases(options.gemm)) {
    cases.push_back(plan_case(layer_case, options));
  }
  if (!options.baseline.empty()) plan_peers(cases, options);
  return cases;
}

bench::Task step_of(bench::Workload& workload) {
  return {[&workload](std::int64_t i) { workload.forward(i); },
          [&workload](std::int64_t i) { workload.backward(i); }};
}

void time_case(Planned& planned, const bench::Protocol& protocol) {
  GemmRow& row = planned.row;
  bench::DeviceTiming timing(row.layer.device());
  const std::int64_t uses = bench::most_calls(protocol);
  planned.ours->set_stream(timing.stream());
  planned.ours->allocate(uses);
  if (planned.peer) {
    planned.peer->set_stream(timing.stream());
    planned.peer->allocate(uses);
    row.comparison = timing.compare(step_of(*planned.ours), step_of(*planned.peer), protocol);
    row.times = row.comparison->ours;
  } else {
    row.times = timing.measure(step_of(*planned.ours), protocol);
  }
  row.gpu = row.times->gpu;
  row.note = row.times->note();
  if (!planned.peer_refusal.empty()) {
    row.note += (row.note.empty() ? "" : "; ") + planned.peer_refusal;
  }
}

// Whatever goes wrong with one case is its row's ERROR; the others are still run.
void run_case(Planned& planned, const bench::Protocol& protocol) {
  GemmRow& row = planned.row;
  const Layer& layer = row.layer;
  try {
    row.gates = run_gates(layer);
    row.check = row.gates.pass() ? "PASS" : "FAIL";
    row.note = failed_gates(row.gates);
    if (row.check == "PASS") {
      row.f16_snr_db =
          bench::f16_product_snr_db(layer.shape(), layer.input(), layer.device(), layer.data);
      time_case(planned, protocol);
    }
  } catch (const std::exception& error) {
    row.check = "ERROR";
    row.note = in_one_line(error.what());
    row.times.reset();
    row.comparison.reset();
  }
  planned.ours.reset();
  planned.peer.reset();
}

void check_options_fit(const BenchGemmOptions& options) {
  if (options.prequantized && options.gemm.dtype != "fp8") {
    refuse_usage("--prequantized goes with --dtype fp8, got --dtype {}", options.gemm.dtype);
  }
  check_timing_options(options.timing);
}

// Of a GPU the planning is left to the run: it would open it.
std::vector<BenchCase> check_cases(const BenchGemmOptions& options) {
  check_options_fit(options);
  std::vector<BenchCase> cases;
  for (const LayerCase& layer_case : chosen_cases(options.gemm)) {
    const Layer layer = make_layer(layer_case, options.gemm);
    if (!options.baseline.empty()) check_peer_fits(options.baseline, layer);
    if (layer.device().type == DeviceType::cpu) make_workload(layer, options.prequantized);
    cases.push_back({layer_case.test_id, layer_case.name(), bench_command(layer, options)});
  }
  return cases;
}

int bench_gemm(const BenchGemmOptions& options) {
  check_options_fit(options);
  const bool with_baseline = !options.baseline.empty();
  const bench::Row header = gemm_header(with_baseline);
  const RunClock run_clock(options.timing.max_seconds);
  std::vector<Planned> cases = plan_cases(options);
  std::vector<bench::Row> planned_rows;
  std::vector<std::string> repeats;
  for (const Planned& planned : cases) {
    planned_rows.push_back(gemm_fields(planned.row, with_baseline));
    repeats.push_back(planned.row.check_command);
  }
  ResultFile file(options.timing.output, header, planned_rows, options.timing.fresh);
  run_cases(
      file, result_kind("gemm"), options.timing, run_clock,
      [&](std::size_t i) { return cases[i].row.layer.layer.name(); },
      [&](std::size_t i) {
        run_case(cases[i], make_protocol(options.timing, cases[i].row.layer.device(),
                                         cpu_seconds(options.gemm)));
        return gemm_fields(cases[i].row, with_baseline);
      });
  return print_gemm_summary(header, file.rows(), repeats);
}

}  // namespace

void add_bench_gemm(CLI::App& bench, Chosen& chosen) {
  CLI::App* app = bench.add_subcommand("gemm", "the linear layer: forward and backward");
  const auto options = std::make_shared<BenchGemmOptions>();
  add_gemm_options(*app, options->gemm);
  add_timing_options(*app, options->timing);
  add_flag(*app, "--prequantized", options->prequantized, "time the products alone");
  add_choice(*app, "--baseline", options->baseline, peer_names(),
             "time a peer interleaved and report its time over ours");
  choose_when_given(
      *app, chosen, [options] { return bench_gemm(*options); },
      [options] { return check_cases(*options); });
  // `octet bench` alone does the main job.
  bench.callback([&bench, &chosen, options] {
    if (bench.get_subcommands().empty()) {
      chosen = {&bench, [options] { return bench_gemm(*options); }, {}};
    }
  });
}

}  // namespace octet::tool
