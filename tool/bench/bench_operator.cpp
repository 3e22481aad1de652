// octet bench OP: checks the gates of every case, then times it, next to its baseline if any.
// Writes a row per case, then prints a table and the score.
#include "tool/bench/case_result.hpp"
#include "tool/bench/headline.hpp"
#include "tool/console.hpp"
#include "tool/history/history.hpp"
#include "tool/options/options.hpp"
#include "tool/progress.hpp"
#include "tool/results/json_rows.hpp"
#include "tool/results/result_file.hpp"
#include "tool/results/result_kind.hpp"
#include "tool/tune/tuner.hpp"

#include "bench/workloads/memory.hpp"

#include <octet/bench/timing.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

struct BenchCommand {
  std::unique_ptr<Operator> op;
  TimingOptions timing;
};

// A case, its plan and its result.
struct Planned {
  CaseResult result;
  std::unique_ptr<bench::Workload> workload;
  std::string no_baseline;  // why --baseline does not take the case
};

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// "G1 of y: 20.1 dB, wanted > 25 dB; ..."; empty if all passed.
std::string failed_gates(const GateReport& report) {
  std::string result;
  for (const GateResult& gate : report.results) {
    if (gate.pass) continue;
    result += fmt::format("{}{} of {}: {}, wanted {}", result.empty() ? "" : "; ", gate.gate,
                          gate.tensor, gate.value, gate.bound);
  }
  return result;
}

std::string test_id(const Case& one, std::size_t number) {
  return one.test_id.empty() ? std::to_string(number) : one.test_id;
}

Planned plan_case(const Case& one, std::size_t number, const BenchCommand& command) {
  const Operator& op = *command.op;
  Planned planned;
  CaseResult& result = planned.result;
  result.op = op.name();
  result.chosen = one;
  result.test_id = test_id(one, number);
  result.data = op.data_options();
  result.baseline = op.baseline();
  result.command = op.bench_command(one, command.timing);
  planned.workload = one.workload(result.data);
  result.implementation = planned.workload->implementation();
  result.configuration = planned.workload->configuration();
  result.calls = planned.workload->calls();
  result.peer_calls = planned.workload->peer_calls();
  return planned;
}

// A baseline that refuses every case is an error of the command line. If it refuses only some,
// those are run without it.
void plan_baselines(std::vector<Planned>& cases, const Operator& op) {
  std::optional<Error> refusal;
  bool any = false;
  for (Planned& planned : cases) {
    const Case& one = planned.result.chosen;
    op.check_baseline(one.device);
    try {
      auto baseline = one.baseline(planned.result.data);
      planned.result.baseline_configuration = baseline->configuration();
      planned.workload = bench::beside(std::move(planned.workload), std::move(baseline));
      any = true;
    } catch (const Error& error) {
      if (!refusal) refusal = error;
      planned.no_baseline = "no baseline: " + in_one_line(error.what());
    }
  }
  if (!any) throw *refusal;  // NOLINT: every case set it
}

// Throws octet::Error if a case cannot be planned, before anything is run or written.
std::vector<Planned> plan_cases(const BenchCommand& command) {
  std::vector<Planned> cases;
  for (const Case& one : command.op->chosen_cases()) {
    cases.push_back(plan_case(one, cases.size() + 1, command));
  }
  if (!command.op->baseline().empty()) plan_baselines(cases, *command.op);
  return cases;
}

void time_case(Planned& planned, const bench::Protocol& protocol, Progress& progress) {
  CaseResult& result = planned.result;
  bench::DeviceTiming timing(result.chosen.device);
  planned.workload->set_stream(timing.stream());
  progress.phase("allocating");
  planned.workload->allocate(bench::most_calls(protocol));
  timing.on_timing_begins([&] { progress.phase("timing", true); });
  progress.phase("warm-up", true);
  if (const bench::Task peer = planned.workload->peer(); !peer.empty()) {
    result.comparison = timing.compare(planned.workload->task(), peer, protocol);
    result.times = result.comparison->ours;
  } else {
    result.times = timing.measure(planned.workload->task(), protocol);
  }
  result.note = result.times->note();
  for (const std::string& more : {result.chosen.note, planned.no_baseline}) {
    if (!more.empty()) result.note += (result.note.empty() ? "" : "; ") + more;
  }
}

// An exception in one case becomes ERROR in its row; the other cases still run.
void run_case(Planned& planned, const bench::Protocol& protocol, Progress& progress) {
  CaseResult& result = planned.result;
  const Case& one = result.chosen;
  try {
    // The check takes as much: where memory is short, Linux would end the process.
    bench::require_free(planned.workload->bytes(), bench::free_bytes(one.device), one.device);
    progress.phase("checking");
    result.gates = one.check(result.data);
    result.check = result.gates.pass() ? "PASS" : "FAIL";
    result.note = failed_gates(result.gates);
    if (result.gates.pass()) {
      if (one.f16_snr_db) result.f16_snr_db = one.f16_snr_db(result.data);
      time_case(planned, protocol, progress);
    }
  } catch (const std::exception& error) {
    result.check = "ERROR";
    result.note = in_one_line(explain(error));
    result.times.reset();
    result.comparison.reset();
  }
  planned.workload.reset();
}

// Prints how many rows were kept and how many cases are left, if any.
void print_rest(std::size_t kept, std::size_t not_started, const ResultFile& file,
                const TimingOptions& options) {
  const std::size_t total = file.rows().size();
  if (kept > 0) {
    fmt::print("{} of {} already in {} (--fresh measures again)\n", kept, counted(total, "case"),
               options.output);
  }
  if (file.others() > 0) {
    fmt::print("{} of other cases kept in {} (--fresh drops them)\n", counted(file.others(), "row"),
               options.output);
  }
  if (const std::string replaced = file.replaced_text(); !replaced.empty()) {
    fmt::print("{}\n", printable(replaced));
  }
  if (not_started > 0) {
    fmt::print("{} of {} not started (--max-seconds reached){}\n", not_started,
               counted(total, "case"),
               options.output.empty() ? "" : "; rerun the same command to continue");
  }
}

// What Ctrl-C prints: what is kept of the run so far, and how to continue.
std::string interrupt_text(std::size_t done, std::size_t wanted, const TimingOptions& options) {
  return options.output.empty()
             ? fmt::format(
                   "octet bench: interrupted after {} of {}; without -o no rows are kept "
                   "(the history has them, unless it is off)\n",
                   done, counted(wanted, "case"))
             : fmt::format(
                   "octet bench: interrupted after {} of {}; {} in {}.partial, rerun the "
                   "same command to continue\n",
                   done, counted(wanted, "case"), done == 1 ? "its row is" : "rows are",
                   options.output);
}

// Runs the cases of the shard that have no row from an earlier run, while time is left. Rows also
// go to the history. At the end the result file is finished and the --json file is written.
void run_cases(std::vector<Planned>& cases, const RowLayout& layout, ResultFile& file,
               JsonFile& json, const BenchCommand& command, const RunClock& clock) {
  const Operator& op = *command.op;
  const ResultKind& kind = result_kind(op.name());
  std::size_t kept = 0;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (file.rows()[i]) {
      ++kept;
    } else if (in_shard(command.timing, i)) {
      wanted.push_back(i);
    }
  }
  HistoryWriter history(kind, layout.header);
  std::vector<double> work;
  work.reserve(wanted.size());
  for (const std::size_t index : wanted) work.push_back(cases[index].result.chosen.work());
  Progress progress(work);
  InterruptMessage interrupt;
  std::size_t done = 0;
  while (done < wanted.size() && !clock.is_over()) {
    Planned& planned = cases[wanted[done]];
    const Case& one = planned.result.chosen;
    interrupt.set(interrupt_text(done, wanted.size(), command.timing));
    progress.show(done, one.title());
    run_case(planned, make_protocol(command.timing, one.device, op.cpu_seconds()), progress);
    const bench::Row row = layout.fields(planned.result);
    // The history first: if the run is killed in between, the case is measured again.
    if (const auto warning = history.add(row)) {
      progress.clear();
      fmt::print(stderr, "octet: {}\n", printable(*warning));
    }
    file.add(wanted[done], row);
    ++done;
  }
  progress.clear();
  file.finish();
  json.write(kind, layout.header, file.rows());
  print_rest(kept, wanted.size() - done, file, command.timing);
}

void check_options(const BenchCommand& command) {
  command.op->check_bench_options();
  check_timing_options(command.timing);
}

// On a GPU the cases are not planned here, since planning would open the device.
std::vector<BenchCase> check_cases(const BenchCommand& command) {
  check_options(command);
  const Operator& op = *command.op;
  std::vector<BenchCase> cases;
  for (const Case& one : op.chosen_cases()) {
    if (!op.baseline().empty()) op.check_baseline(one.device);
    if (one.device.type == DeviceType::cpu) one.workload(op.data_options());
    cases.push_back(
        {test_id(one, cases.size() + 1), one.name, op.bench_command(one, command.timing)});
  }
  return cases;
}

// "1024x4096x512  Llama-2-7B attn_qkv": a line per case of the shard, in columns for scripts.
void list_cases(const BenchCommand& command) {
  const std::vector<Case> cases = command.op->chosen_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!in_shard(command.timing, i)) continue;
    const std::string name = cases[i].name == "shape" ? "" : "  " + cases[i].name;
    fmt::print("{}{}\n", cases[i].shape(), printable(name));
  }
}

std::vector<bench::Row> rows_of(const std::vector<Planned>& cases, const RowLayout& layout) {
  std::vector<bench::Row> rows;
  rows.reserve(cases.size());
  for (const Planned& planned : cases) rows.push_back(layout.fields(planned.result));
  return rows;
}

// Those of the shard that have no row yet, with the table of this process. Throws UsageError if the output file cannot
// take their rows, before minutes of tuning.
std::vector<Case> cases_to_time(const BenchCommand& command, const RowLayout& layout) {
  const std::vector<Planned> cases = plan_cases(command);
  const ResultFile file(command.timing.output, layout.header, rows_of(cases, layout),
                        command.timing.fresh);
  std::vector<Case> wanted;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!file.rows()[i] && in_shard(command.timing, i)) wanted.push_back(cases[i].result.chosen);
  }
  return wanted;
}

int bench_operator(const BenchCommand& command) {
  check_options(command);
  if (command.timing.list) {
    list_cases(command);
    return 0;
  }
  const Operator& op = *command.op;
  const RunClock clock(command.timing.max_seconds);
  const RowLayout layout = layout_of(op.rows(), op.baseline());
  JsonFile json(command.timing.json);  // takes stdout for itself if it is "-"
  auto_tune(
      op, [&] { return cases_to_time(command, layout); }, clock);
  std::vector<Planned> cases = plan_cases(command);
  std::vector<std::string> repeats;
  std::vector<PlannedRun> runs;
  for (const Planned& planned : cases) {
    runs.push_back({planned.result.chosen.device, planned.result.implementation});
    repeats.push_back(op.check_command(planned.result.chosen));
  }
  ResultFile file(command.timing.output, layout.header, rows_of(cases, layout),
                  command.timing.fresh);
  fmt::print("{}\n{}\n", machine_headline(runs, op.data_options().threads),
             output_headline(command.timing));
  std::fflush(stdout);
  run_cases(cases, layout, file, json, command, clock);
  return print_summary(layout, file.rows(), repeats, command.timing.wide);
}

}  // namespace

void add_bench_operators(CLI::App& bench, Chosen& chosen) {
  for (const MakeOperator make : operators()) {
    const auto command = std::make_shared<BenchCommand>(BenchCommand{make(), {}});
    Operator& op = *command->op;
    CLI::App& app = add_command(bench, op.name(), op.about());
    op.add_options(app, true);
    add_timing_options(app, command->timing, op.cpu_seconds_text());
    op.add_bench_options(app);
    choose_when_given(
        app, chosen, [command] { return bench_operator(*command); },
        [command] { return check_cases(*command); });
  }
  // Without a subcommand, run the first operator.
  choose_without_command(bench, chosen, [] { return bench_operator({operators().front()(), {}}); });
}

}  // namespace octet::tool
