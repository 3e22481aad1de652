#include "tool/tune/tuner.hpp"

#include "tool/console.hpp"
#include "tool/history/state_database.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/parse.hpp"
#include "tool/tune/problem_text.hpp"

#include "bench/tune/search.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/choose.hpp"

#include <octet/bench/timing.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace octet::tool {
namespace {

// Of the time that the model predicts for the implementation's own choice. Beyond it nothing was ever the fastest in
// the sweeps that the models are fitted to.
constexpr double kWorthATry = 1.25;
// A first look, which ends where a candidate is this far behind the best.
constexpr double kLookSeconds = 0.06;
constexpr int kLookRounds = 3;
constexpr double kFarBehind = 0.96;
// Then so many of the full rounds, which end near ties: a candidate that is not ahead after them is no gain of 2 %.
constexpr int kTieRounds = 2;
// Of a turn, however short they are: about as many launches as a GPU queues.
constexpr int kMostCalls = 1000;
// More sets of tiny operands would take longer to make than to time.
constexpr std::int64_t kMostSets = 256;

// Both contestants are octet's: no threads of another library have to fall asleep between their turns.
bench::Protocol protocol(int warmup, int rounds, double seconds) {
  bench::Protocol result;
  result.warmup = warmup;
  result.rounds = rounds;
  result.iterations = rounds * kMostCalls;
  result.seconds = seconds;
  result.settle_seconds = 0;
  return result;
}
bench::Protocol look(double seconds) {
  return protocol(2, kLookRounds, std::min(kLookSeconds, seconds));
}
bench::Protocol full(double seconds) { return protocol(3, bench::Protocol{}.rounds, seconds); }
bench::Protocol first_rounds(double seconds) {
  return protocol(3, kTieRounds, seconds * kTieRounds / bench::Protocol{}.rounds);
}

class Tuner {
 public:
  Tuner(bench::Tunable& tunable, const TunerOptions& options,
        const std::function<void(const std::string&)>& phase)
      : tunable_(tunable),
        options_(options),
        phase_(phase),
        timing_(tunable.device()),
        results_(tunable.candidates().size()) {}

  TunedEntry tune() {
    const std::vector<bench::TuneCandidate>& candidates = tunable_.candidates();
    const std::vector<std::size_t> order = tried();
    std::size_t chosen = 0;
    double gain = 1;
    if (order.size() > 1) {
      phase_("allocating");
      tunable_.allocate(kMostSets, timing_.stream());
      const bench::SearchResult found = bench::search_fastest(
          order.size(), [&](std::size_t i) { return judge(order[i]); },
          [&](std::size_t i, std::size_t best) { return compare(order[i], order[best]); },
          [&] { tunable_.synchronize(); });
      for (std::size_t i = 1; i < order.size(); ++i) note(order[i], found.trials[i]);
      for (const std::size_t i : fastest_first(found)) {
        // Against the library's own choice, and for longer: a gain that was noise is gone here.
        gain = time(order[i], 0, full(2 * options_.seconds));
        if (gain <= bench::kLeastGain) break;
        results_[order[i]] = gate(order[i]);
        if (!results_[order[i]].empty()) continue;
        chosen = order[i];
        break;
      }
    }
    if (chosen == 0) {
      if (const std::string refusal = gate(0); !refusal.empty()) {
        fail(ErrorCode::internal, "the default, ", choice_text(candidates[0].choice),
             ", may not be used: ", refusal);
      }
    }
    TunedEntry entry;
    entry.key = tunable_.key();
    entry.choice = candidates[chosen].choice;
    entry.usual = candidates[0].choice;
    entry.gain = chosen == 0 ? 1 : gain;
    results_[0] = "default";
    if (chosen != 0) results_[chosen] = fmt::format("{:.3f}x, chosen", gain);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      entry.trials.push_back({candidates[i].choice, candidates[i].predicted, results_[i]});
    }
    return entry;
  }

 private:
  bool is_allowed(const bench::TuneCandidate& candidate) const {
    return std::ranges::find(options_.allow, candidate.choice.implementation) !=
           options_.allow.end();
  }

  // The default, then the others that are worth it, those first that the model likes.
  std::vector<std::size_t> tried() {
    const std::vector<bench::TuneCandidate>& candidates = tunable_.candidates();
    std::vector<std::size_t> order{0};
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      if (candidates[i].only_forced && !is_allowed(candidates[i])) {
        results_[i] = "not tried: only with --allow " + candidates[i].choice.implementation;
      } else if (candidates[i].predicted > kWorthATry && !options_.all) {
        results_[i] =
            fmt::format("not tried: predicted {:.2f} of the time", candidates[i].predicted);
      } else {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin() + 1, order.end(), [&](std::size_t a, std::size_t b) {
      return candidates[a].predicted < candidates[b].predicted;
    });
    return order;
  }

  // Those that seemed faster than the default, the one that the search chose before all.
  static std::vector<std::size_t> fastest_first(const bench::SearchResult& found) {
    std::vector<double> speedups{1};  // over the default, by way of what was the best then
    std::vector<std::size_t> faster;
    std::size_t best = 0;
    for (std::size_t i = 1; i < found.trials.size(); ++i) {
      const bench::Trial& trial = found.trials[i];
      speedups.push_back(trial.speedup * speedups[best]);
      if (!trial.verdict.pass) continue;
      if (trial.speedup > bench::kLeastGain) best = i;
      if (speedups[i] > bench::kLeastGain) faster.push_back(i);
    }
    std::ranges::stable_sort(faster, [&](std::size_t a, std::size_t b) {
      if (a == found.chosen || b == found.chosen) return a == found.chosen && b != found.chosen;
      return speedups[a] > speedups[b];
    });
    return faster;
  }

  // Why a candidate may not stand; empty: it may.
  std::string gate(std::size_t candidate) {
    phase_("checking");
    return refuse_choice(tunable_, tunable_.candidates()[candidate].choice);
  }

  bench::Verdict judge(std::size_t candidate) {
    bench::Verdict verdict;
    verdict.pass = true;
    if (candidate == 0) return verdict;
    phase_("comparing bits");
    const std::int64_t different = tunable_.differences(candidate);
    if (different == 0) return verdict;
    verdict.note = fmt::format("changes {} elements", different);
    verdict.pass = is_allowed(tunable_.candidates()[candidate]);
    return verdict;
  }

  // The time of `best` over that of the candidate.
  double compare(std::size_t candidate, std::size_t best) {
    const double first = time(candidate, best, look(options_.seconds));
    if (first < kFarBehind) return first;
    const double tie = time(candidate, best, first_rounds(options_.seconds));
    return tie < 1 ? tie : time(candidate, best, full(options_.seconds));
  }

  double time(std::size_t candidate, std::size_t best, const bench::Protocol& how) {
    phase_("timing");
    return timing_.compare({tunable_.part(candidate)}, {tunable_.part(best)}, how).ratio;
  }

  void note(std::size_t candidate, const bench::Trial& trial) {
    std::string& result = results_[candidate];
    if (!trial.verdict.pass) {
      result = trial.verdict.note;
      return;
    }
    result = fmt::format("{:.3f}x", trial.speedup);
    if (!trial.verdict.note.empty()) result += ", " + trial.verdict.note;
  }

  bench::Tunable& tunable_;
  const TunerOptions& options_;
  const std::function<void(const std::string&)>& phase_;
  bench::DeviceTiming timing_;
  std::vector<std::string> results_;
};

std::string first_failure(const GateReport& report) {
  for (const GateResult& gate : report.results) {
    if (!gate.pass) {
      return fmt::format("FAIL: {} of {}: {}, wanted {}", gate.gate, gate.tensor, gate.value,
                         gate.bound);
    }
  }
  return "";
}

void say_not_tuned(const std::string& what, const std::exception& error) {
  fmt::print(stderr, "octet: not tuned: {}: {}\n", printable(what), printable(explain(error)));
}

// An entry that the library cannot run is none.
bool is_known(const bench::Tunable& tunable, const TuningStore& store) {
  const auto known = store.find(tunable.key());
  return known && is_candidate(tunable, known->choice);
}

// Those that the store does not have, each once. A case that cannot be planned has none: the benchmark says why.
std::vector<CaseProblem> missing_problems(const std::vector<Case>& cases, const DataOptions& data,
                                          const TuningStore& store) {
  std::vector<CaseProblem> missing;
  std::set<TuningKey> keys;  // a layer may have two products of one shape
  for (const Case& one : cases) {
    try {
      for (const CaseProblem& asked : problems_of(one, data)) {
        const auto tunable = read_problem(asked.problem, asked.device, asked.data);
        if (!is_known(*tunable, store) && keys.insert(tunable->key()).second) {
          missing.push_back(asked);
        }
      }
    } catch (const Error& error) {
      say_not_tuned(one.arguments, error);
    }
  }
  return missing;
}

void tune_missing(const std::vector<CaseProblem>& missing, TuningStore& store,
                  const RunClock& clock) {
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (clock.is_over()) {
      fmt::print(stderr, "octet: {} not tuned (--max-seconds reached)\n",
                 counted(missing.size() - i, "problem"));
      return;
    }
    const auto& [problem, device, data] = missing[i];
    try {
      const auto tunable = read_problem(problem, device, data);
      if (is_known(*tunable, store)) continue;  // by another process
      fmt::print(stderr, "octet: tuning {}\n", problem);
      store.put({tune_problem(*tunable, {}, [](const std::string&) {})});
    } catch (const DatabaseError&) {
      throw;
    } catch (const std::exception& error) {  // std::bad_alloc, too
      say_not_tuned(problem, error);
      require_working(device, error);
    }
  }
}

// What forces an implementation that octet tune would choose: "OCTET_GEMM_BACKEND=cpu_simd"; empty: nothing.
std::string forced_by(const Operator& op) {
  if (const std::string& given = op.data_options().backend; !given.empty()) {
    return "--backend " + given;
  }
  for (std::string chosen : op.chosen_operators()) {
    const std::string variable = backend_variable(chosen);
    std::ranges::replace(chosen, '_', '-');
    const char* value = is_tunable(chosen) ? environment(variable.c_str()) : nullptr;
    if (value != nullptr) return variable + "=" + value;
  }
  return "";
}

// What OCTET_AUTO_TUNE says. Throws UsageError.
bool wants_auto_tune() {
  const char* wanted = environment("OCTET_AUTO_TUNE");
  if (wanted == nullptr || std::string_view(wanted) == "0") return false;
  if (std::string_view(wanted) != "1") {
    refuse_usage("OCTET_AUTO_TUNE must be 0 or 1, got \"{}\"", wanted);
  }
  if (const char* table = environment("OCTET_TUNING_TABLE")) {
    refuse_usage(
        "OCTET_AUTO_TUNE=1 takes the table of the user's store, OCTET_TUNING_TABLE={} names "
        "another one; unset one of them",
        table);
  }
  return true;
}

// The store's own entries: the file beside it may be from before a process was killed.
std::shared_ptr<const TuningTable> table_of(const std::string& store) {
  return std::make_shared<const TuningTable>(
      TuningTable{table_path(store), TuningStore(store, StoreUse::read).table()});
}

}  // namespace

ScopedTable::ScopedTable(TuningEntries entries) : before_(process_table()) {
  set_process_table(
      std::make_shared<const TuningTable>(TuningTable{"(being tuned)", std::move(entries)}));
}
ScopedTable::~ScopedTable() { set_process_table(before_); }

std::vector<CaseProblem> problems_of(const Case& one, const DataOptions& options) {
  std::vector<CaseProblem> problems;
  if (!one.workload) return problems;
  const DataOptions data = one.data(options);
  const RecordedCalls calls;
  one.workload(data);
  for (const std::string& problem : calls.problems()) {
    if (is_tunable(problem)) problems.push_back({problem, one.device, data});
  }
  return problems;
}

std::string choice_text(const TunedChoice& choice) {
  return choice.implementation + " " + choice.configuration;
}

bool is_candidate(const bench::Tunable& tunable, const TunedChoice& choice) {
  return std::ranges::find(tunable.candidates(), choice, &bench::TuneCandidate::choice) !=
         tunable.candidates().end();
}

std::string refuse_choice(const bench::Tunable& tunable, const TunedChoice& choice) {
  const ScopedTable table({{tunable.key(), choice}});
  if (const TunedChoice taken = tunable.chosen_now(); !(taken == choice)) {
    return "FAIL: with it in a table the library runs " + choice_text(taken);
  }
  return first_failure(tunable.check());
}

TunedEntry tune_problem(bench::Tunable& tunable, const TunerOptions& options,
                        const std::function<void(const std::string&)>& phase) {
  return Tuner(tunable, options, phase).tune();
}

void refuse_forced_backends(const std::set<std::string>& ops) {
  for (const std::string& op : ops) {
    const std::string variable = backend_variable(with_underscores(op));
    if (const char* value = environment(variable.c_str())) {
      refuse_usage(
          "{}={} forces an implementation, which no tuning table changes; unset it to tune",
          variable, value);
    }
  }
}

void require_working(Device device, const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr || ours->code() != ErrorCode::device_error) return;
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

void auto_tune(const Operator& op, const std::function<std::vector<Case>()>& timed,
               const RunClock& clock) {
  if (!wants_auto_tune()) return;
  if (const std::string forced = forced_by(op); !forced.empty()) {
    fmt::print(stderr,
               "octet: not tuned: {} forces an implementation, which no tuning table changes\n",
               printable(forced));
    return;
  }
  const std::string path = store_path("");
  try {
    set_process_table(table_of(path));  // a case that has a row with it is not timed again
    const std::vector<Case> cases = timed();
    set_process_table(nullptr);  // what runs without a table is what is tuned
    if (const auto missing =
            missing_problems(cases, op.data_options(), TuningStore(path, StoreUse::read));
        !missing.empty()) {
      TuningStore store(path, StoreUse::write);
      store.require_writable();
      tune_missing(missing, store, clock);
    }
  } catch (const DatabaseError& error) {
    fmt::print(stderr, "octet: not tuned: {}\n", printable(explain_store(error)));
  }
  set_process_table(nullptr);
  try {
    if (const auto table = table_of(path); !table->entries.empty()) set_process_table(table);
  } catch (const DatabaseError&) {
    // Said above.
  }
}

}  // namespace octet::tool
