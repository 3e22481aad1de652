// octet bench suite: runs a batch of benchmarks from a YAML file, distributed over the GPUs. Each
// is a process of its own, so that none disturbs another and finished rows survive a failure of the
// rest.
#include "tool/cases/cases.hpp"
#include "tool/console.hpp"
#include "tool/history/history.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/command_text.hpp"
#include "tool/options/options.hpp"
#include "tool/results/files.hpp"
#include "tool/results/provenance.hpp"
#include "tool/suite/suite_runner.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace octet::tool {
namespace {

struct BenchSuiteOptions {
  std::string file;  // empty: the built-in one
  std::string folder;
  std::vector<std::string> groups;
  std::optional<std::int64_t> gpus;
  std::int64_t cpu_slots = 1;
  std::optional<double> max_seconds;
};

// The built-in groups take hours. Without arguments the command runs what `octet bench` runs.
std::vector<Task> chosen_tasks(const BenchSuiteOptions& options) {
  if (!options.file.empty()) {
    const std::string text = read_text_file("FILE " + options.file, options.file,
                                            "a YAML file of tasks, as cases/tasks.yaml");
    return tasks_of(parse_tasks(text, options.file), options.groups);
  }
  const std::string text(embedded_case_file("tasks.yaml"));
  return tasks_of(parse_tasks(text, "tasks.yaml"),
                  options.groups.empty() ? std::vector<std::string>{"quick"} : options.groups);
}

// The cases of a task. Parses the arguments its process will get, so that errors in the file are
// found before anything runs.
std::vector<BenchCase> cases_of(const Task& task, const std::string& device) {
  CLI::App bench("", "octet bench");
  Chosen chosen;
  add_bench_operators(bench, chosen);
  std::vector<std::string> names;
  for (const MakeOperator make : operators()) names.emplace_back(make()->name());
  const std::string place = fmt::format("{}: task {}", task.place, task.label);
  if (std::find(names.begin(), names.end(), task.op) == names.end()) {
    refuse_usage("{}: there is no op \"{}\"; there are: {}", place, task.op,
                 fmt::join(names, ", "));
  }
  std::vector<std::string> words(task.arguments.rbegin(), task.arguments.rend());
  words.push_back("--device=" + device);
  words.push_back(task.op);  // CLI11 reads from the back
  try {
    bench.parse(words);
    return chosen.cases();
  } catch (const CLI::ParseError& error) {
    refuse_usage("{}: {}", place, explain(*bench.get_subcommand(task.op), error));
  } catch (const Error& error) {
    const bool is_forced = std::ranges::any_of(
        task.arguments, [](const std::string& word) { return word.starts_with("--backend="); });
    const bool needs_gpu = is_forced && error.code() == ErrorCode::unsupported && device == "cpu";
    refuse_usage(
        "{}: {}{}", place, error.what(),
        needs_gpu ? "\n  the suite runs on the CPU: there is no GPU here, or -n 0 was given" : "");
  } catch (const std::runtime_error& error) {
    refuse_usage("{}: {}", place, error.what());
  }
}

// Returns the exit status.
int print_suite_summary(const std::vector<Task>& tasks, const SuiteFolder& folder,
                        const SuiteRunner& runner) {
  std::vector<std::vector<std::string>> table{{"task", "results", "pass", "fail", "error"}};
  std::vector<std::string> troubles = runner.deaths();
  for (const Task& task : tasks) {
    const std::string path = folder.results(task);
    const Checks checks = folder.checks(task);
    table.push_back({task.label, path, std::to_string(checks.passed), std::to_string(checks.failed),
                     std::to_string(checks.errors)});
    if (!checks.all_passed()) {
      const std::size_t bad = checks.failed + checks.errors;
      troubles.push_back(fmt::format("{}: {} of {} rows did not pass; see {} and {}", task.label,
                                     bad, bad + checks.passed, path, folder.logs(task)));
    }
  }
  print_table(table, 2);
  for (const std::string& trouble : troubles) fmt::print("{}\n", trouble);
  if (runner.not_started() > 0) {
    fmt::print("{} processes not started; rerun the same command to continue\n",
               runner.not_started());
  }
  if (const int number = runner.stopped_by(); number != 0) {
    constexpr int kExitOfASignal = 128;  // plus its number, as in shells
    fmt::print("stopped by signal {} ({}); rerun the same command to continue\n", number,
               strsignal(number));
    return kExitOfASignal + number;
  }
  return troubles.empty() ? 0 : kExitFailed;
}

// What runs where, and where rows, logs and history go.
void print_headline(const std::vector<Task>& tasks, const std::vector<Slot>& slots,
                    const std::string& folder) {
  std::size_t cases = 0;
  for (const Task& task : tasks) cases += task.cases.size();
  std::vector<std::string> names;
  names.reserve(slots.size());
  for (const Slot& slot : slots) names.push_back(slot.name);
  fmt::print("{} · {} of {} on {}\nrows and logs: {} · history: {}\n", version_text(),
             counted(cases, "case"), counted(tasks.size(), "task"), fmt::join(names, ", "),
             printable(folder), printable(history_place()));
  std::fflush(stdout);
}

int bench_suite(const BenchSuiteOptions& options) {
  const RunClock clock(options.max_seconds);
  std::vector<Task> tasks = chosen_tasks(options);
  const std::vector<Slot> slots = suite_slots(options.gpus, options.cpu_slots);
  for (Task& task : tasks) task.cases = cases_of(task, slots.front().device);
  const SuiteFolder folder(options.folder, tasks);
  print_headline(tasks, slots, options.folder);
  SuiteRunner runner(tasks, slots, folder, clock);
  runner.run();
  return print_suite_summary(tasks, folder, runner);
}

}  // namespace

void add_bench_suite(CLI::App& bench, Chosen& chosen) {
  CLI::App& app = add_command(
      bench, "suite", "Run a batch of benchmarks from a YAML file, distributed over the GPUs.");
  const auto options = std::make_shared<BenchSuiteOptions>();
  constexpr std::int64_t kMostSlots = 1024;
  add_text(app, "FILE", options->file, "FILE.yaml",
           "The tasks. [default: those that ship with octet, as cases/tasks.yaml]");
  add_text(app, "-d", options->folder, "DIR",
           "Where rows and logs go. The same command continues a run that was stopped.");
  require_option(app, "-d");
  add_texts(app, "-g", options->groups, "GROUP",
            "Run this group of tasks. Repeat it for several groups. [default: all of FILE; quick "
            "without FILE]");
  add_whole(app, "-n", options->gpus, 0, kMostSlots,
            "Number of GPUs to use; 0 runs on the CPU. [default: all]");
  add_whole(app, "--cpu-slots", options->cpu_slots, 1, kMostSlots,
            "Tasks at a time on the CPU; the threads of each fill the machine.");
  add_real(app, "--max-seconds", options->max_seconds,
           "Start no further case after this many seconds; rerun the same command to continue. "
           "[default: no limit]");
  add_examples(app,
               {"octet bench suite -d results", "octet bench suite -d results -g dense84 -n 4"});
  choose_when_given(app, chosen, [options] { return bench_suite(*options); });
}

}  // namespace octet::tool
