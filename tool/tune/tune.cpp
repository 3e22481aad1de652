// octet tune OP: finds the fastest of what may run the problems of an operator, and keeps it in the tuning store.
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"
#include "tool/progress.hpp"
#include "tool/results/files.hpp"
#include "tool/tune/problem_text.hpp"
#include "tool/tune/tuner.hpp"
#include "tool/tune/tuning_store.hpp"

#include "bench/timing/timing.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

namespace octet::tool {

void add_tune_store(CLI::App& tune, Chosen& chosen);  // store_commands.cpp

namespace {

constexpr std::string_view kCall = "octet call: ";

struct TuneCommand {
  std::unique_ptr<Operator> op;
  TunerOptions tuner;
  std::string store;
  std::string log;
  bool again = false;
  bool wide = false;
  std::optional<double> seconds;
  std::optional<double> max_seconds;
};

// What the counts at the end say of a run.
struct Tally {
  std::size_t tuned = 0;
  std::size_t kept = 0;
  std::size_t failed = 0;
  std::size_t left = 0;
  std::vector<double> gains;  // of the fastest over the library's own choice, where both were timed

  void add_gain(const TunedEntry& entry) {
    if (std::isfinite(entry.gain)) gains.push_back(entry.gain);
  }
};

void say_on_stderr(const std::string& what, const std::exception& error) {
  fmt::print(stderr, "octet tune: {}: {}\n", printable(what), printable(explain(error)));
}

// The problems of the operator that the plans of its cases have. A case that cannot be planned has none.
std::vector<CaseProblem> problems_of_cases(const Operator& op, Tally& tally) {
  std::vector<CaseProblem> wanted;
  for (const Case& one : op.chosen_cases()) {
    try {
      for (CaseProblem& problem : problems_of(one, op.data_options())) {
        if (operator_of(problem.problem) == op.name()) wanted.push_back(std::move(problem));
      }
    } catch (const Error& error) {
      say_on_stderr(one.arguments, error);
      ++tally.failed;
    }
  }
  return wanted;
}

// Those of a log that OCTET_LOG=calls wrote, among whatever else it has: on the device of --device, or else on that
// of the call.
std::vector<CaseProblem> problems_of_log(const TuneCommand& command) {
  const std::string text = read_text_file("--from-log " + command.log, command.log,
                                          "a log with the lines that OCTET_LOG=calls prints");
  const Operator& op = *command.op;
  const DataOptions data = op.data_of_problems();
  std::istringstream lines(text);
  std::vector<CaseProblem> wanted;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    // The last: a line of several processes may begin with a part of another call.
    const std::size_t at = line.rfind(kCall);
    if (at == std::string::npos) continue;
    const std::string problem = line.substr(at + kCall.size());
    if (operator_of(problem) != op.name()) continue;
    try {
      const Device device = device_of_call(problem);
      wanted.push_back({problem, op.given_device().value_or(device), data});
    } catch (const std::runtime_error& error) {  // of the text, or of a dtype or device in it
      fmt::print(stderr, "octet tune: {}: skipped: {}\n", printable(command.log),
                 printable(error.what()));
    }
  }
  if (wanted.empty()) {
    refuse_usage("--from-log {}: no line has a call of {}; OCTET_LOG=calls prints \"{}{} ...\"",
                 command.log, op.name(), kCall, op.name());
  }
  return wanted;
}

// Each once: calls of a log that differ in their device only are one problem on that of --device.
std::vector<CaseProblem> wanted_problems(const TuneCommand& command, Tally& tally) {
  std::vector<CaseProblem> all =
      command.log.empty() ? problems_of_cases(*command.op, tally) : problems_of_log(command);
  std::set<std::string> seen;
  std::erase_if(all, [&](const CaseProblem& one) {
    return !seen.insert(tuning_problem(one.problem, false) + " on " + name(one.device)).second;
  });
  return all;
}

void check_options(const TuneCommand& command) {
  if (command.seconds && *command.seconds == 0) {
    refuse_usage(
        "--seconds-per-candidate must be more than 0, got 0: without timing, noise would choose");
  }
  const DataOptions& data = command.op->data_options();
  if (!data.backend.empty() || !data.quantize_backend.empty()) {
    refuse_usage(
        "octet tune tries every implementation; --allow NAME lets it choose one whose bits differ, "
        "--backend and --quantize-backend go with octet bench");
  }
  const std::vector<std::string> known = implementations_of(command.op->name());
  for (const std::string& name : command.tuner.allow) {
    if (std::ranges::find(known, name) == known.end()) {
      refuse_usage("--allow must name an implementation of {}: {}; got \"{}\"", command.op->name(),
                   fmt::join(known, ", "), name);
    }
  }
  refuse_forced_backends({command.op->name()});
}

void print_tally(const Tally& tally, const TuningStore& store) {
  fmt::print("{} tuned, {} already in the store{}{}\n", counted(tally.tuned, "problem"), tally.kept,
             tally.failed > 0 ? fmt::format(", {} that cannot be run", tally.failed) : "",
             tally.left > 0
                 ? fmt::format(", {} not started (--max-seconds reached); rerun the same "
                               "command to continue",
                               tally.left)
                 : "");
  if (!tally.gains.empty()) {
    fmt::print("gain: {:.3f}x in the mean over {}, at most {:.3f}x\n",
               bench::geometric_mean(tally.gains), counted(tally.gains.size(), "problem"),
               std::ranges::max(tally.gains));
  }
  fmt::print("store: {}\ntable: {} (OCTET_TUNING_TABLE names it to the library)\n",
             printable(store.path()), printable(table_path(store.path())));
}

// What Ctrl-C prints: what is kept of the run so far, and how to continue.
std::string interrupt_text(std::size_t done, std::size_t wanted, const TuningStore& store) {
  return fmt::format(
      "octet tune: interrupted after {} of {}; what is tuned is in {}, rerun the same command to "
      "continue\n",
      done, counted(wanted, "problem"), printable(store.path()));
}

// The calls of a log say what is tuned, but not how the rows of groups and the sequences spread.
void refuse_beside_log(const CLI::App& app) {
  constexpr const char* kBecause = "--from-log, whose calls say what is tuned";
  for (const char* group : {kCaseOptions, kNumericOptions, kMaskOptions, kGroupOptions}) {
    refuse_group(app, group, kBecause, {"--group-sizes", "--lengths"});
  }
  refuse_option(app, "--max-multiprocessors", kBecause);
}

int tune_operator(const TuneCommand& command) {
  check_options(command);
  const RunClock clock(command.max_seconds);
  TunerOptions options = command.tuner;
  options.seconds = command.seconds.value_or(options.seconds);
  // What runs without a table is what is tuned. The one of OCTET_TUNING_TABLE may be what this run makes.
  set_process_table(nullptr);
  Tally tally;
  const std::vector<CaseProblem> wanted = wanted_problems(command, tally);
  TuningStore store(store_path(command.store), StoreUse::write);
  std::vector<bench::Row> table{{"problem", "fastest", "gain"}};
  Progress progress(std::vector<double>(wanted.size(), 1.0));
  InterruptMessage interrupt;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    interrupt.set(interrupt_text(i, wanted.size(), store));
    if (clock.is_over()) {
      tally.left = wanted.size() - i;
      break;
    }
    progress.show(i, wanted[i].problem);
    try {
      const auto tunable = read_problem(wanted[i].problem, wanted[i].device, wanted[i].data);
      if (const auto known = store.find(tunable->key());
          known && !command.again && is_candidate(*tunable, known->choice)) {
        table.push_back({known->key.problem, choice_text(known->choice), "in the store"});
        // The library's own choice may be another one by now.
        if (known->usual == tunable->candidates().front().choice) tally.add_gain(*known);
        ++tally.kept;
        continue;
      }
      store.require_writable();
      const TunedEntry entry = tune_problem(*tunable, options, [&](const std::string& phase) {
        progress.phase(phase, phase == "timing");
      });
      store.put({entry});
      table.push_back(
          {entry.key.problem, choice_text(entry.choice),
           entry.choice == entry.usual ? "default" : fmt::format("{:.3f}x", entry.gain)});
      tally.add_gain(entry);
      ++tally.tuned;
    } catch (const DatabaseError&) {
      throw;
    } catch (const std::exception& error) {  // std::bad_alloc, too
      progress.clear();
      say_on_stderr(wanted[i].problem, error);
      ++tally.failed;
      require_working(wanted[i].device, error);
    }
  }
  progress.clear();
  print_table(table, 2, command.wide);
  print_tally(tally, store);
  return tally.failed > 0 ? kExitFailed : 0;
}

// The cases of octet bench, and those of a job.
std::vector<std::string> examples_of(const Operator& op) {
  const std::string tune = fmt::format("octet tune {} ", op.name());
  return {tune + op.examples(true)[0], tune + "--from-log job.log --store job.sqlite"};
}

void add_tune_options(CLI::App& app, TuneCommand& command) {
  option_group(app, "Tuning");
  add_text(
      app, "--from-log", command.log, "FILE",
      "Tune the problems of a log instead: of its lines that begin with \"octet call:\", which any "
      "program prints with OCTET_LOG=calls.");
  add_texts(app, "--allow", command.tuner.allow, "NAME",
            "Also choose this implementation where its results differ in bits; otherwise such a "
            "candidate is only listed. Repeat it for several implementations.");
  add_flag(app, "--all", command.tuner.all,
           "Also time what the cost model predicts to take more than 1.25 times as long.");
  add_flag(app, "--again", command.again, "Measure problems again that the store has.");
  add_real(app, "--seconds-per-candidate", command.seconds,
           with_default("Seconds of timing for a candidate that is close to the fastest.",
                        fmt::format("{}", TunerOptions{}.seconds)));
  add_real(app, "--max-seconds", command.max_seconds,
           "Start no problem after so many seconds; the same command continues.");
  add_text(app, "--store", command.store, "FILE",
           with_default("The tuning store; the table is beside it.",
                        "$OCTET_TUNING_STORE, or octet/tuning.sqlite in the user's state folder"));
  add_flag(app, "--wide", command.wide, "Show every column in full, however wide the table gets.");
}

}  // namespace

void add_tune(CLI::App& octet, Chosen& chosen) {
  CLI::App& tune = add_command(
      octet, "tune", "Find the fastest way to run problems, and keep it for the library.");
  require_command(tune);
  for (const MakeOperator make : operators()) {
    auto op = make();
    if (!is_tunable(op->name())) continue;
    const auto command = std::make_shared<TuneCommand>();
    command->op = std::move(op);
    CLI::App& app =
        add_command(tune, command->op->name(),
                    fmt::format("Tune the problems of octet bench {}.", command->op->name()));
    command->op->add_options(app, true);
    for (const char* forced : {"--backend", "--quantize-backend"}) hide_option(app, forced);
    add_tune_options(app, *command);
    add_examples(app, examples_of(*command->op));
    choose_when_given(app, chosen, [command, &app] {
      if (!command->log.empty()) refuse_beside_log(app);
      try {
        return tune_operator(*command);
      } catch (const DatabaseError& error) {
        refuse_usage("{}", explain_store(error));
      }
    });
  }
  add_tune_store(tune, chosen);
  add_examples(tune, {"octet tune gemm --shape 512x5120x13824", "octet tune list"});
}

}  // namespace octet::tool
