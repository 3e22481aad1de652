// octet tune list, show, verify, diff, export, import and clear: what is done with the store besides tuning.
#include "tool/console.hpp"
#include "tool/history/state_database.hpp"
#include "tool/options/options.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"
#include "tool/tune/problem_text.hpp"
#include "tool/tune/tuner.hpp"
#include "tool/tune/tuning_store.hpp"

#include "bench/report/record.hpp"
#include "cpu/threads.hpp"
#include "dispatch/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

namespace octet::tool {
namespace {

struct StoreOptions {
  std::string store;
  std::string file, other;  // of export, import and diff
  std::int64_t id = 0;
  bool stale = false;
  bool wide = false;
};

// Where an entry was measured, as far as it is this machine.
struct KnownDevice {
  Device device;
  int threads = 0;  // of the CPU
  TuningKey key;    // the problem's, here
};

// The threads that a key on a CPU ends with: "..., avx512, 2 threads".
int threads_of(const TuningKey& key) {
  const std::size_t comma = key.device.rfind(", ");
  int threads = 0;
  if (comma == std::string::npos ||
      std::sscanf(key.device.c_str() + comma, ", %d thread", &threads) != 1 || threads < 1) {
    return 0;
  }
  return std::min(threads, kMaxThreads);
}

std::optional<KnownDevice> device_of(const TuningKey& key) {
  const std::string op = with_underscores(operator_of(key.problem));
  std::vector<KnownDevice> devices{{kCpu, threads_of(key), {}}};
  for (int index = 0; index < cuda_device_count(); ++index) {
    devices.push_back({{DeviceType::cuda, index}, 0, {}});
  }
  for (KnownDevice& one : devices) {
    one.key = tuning_key(op, key.problem, false, one.device, this_machine(one.device, one.threads));
    if (one.key.device == key.device) return one;
  }
  return std::nullopt;
}

// As octet tune takes it: with the threads of the entry.
std::unique_ptr<bench::Tunable> tunable_of(const TunedEntry& entry, const KnownDevice& here) {
  DataOptions options;
  options.threads = here.threads;
  return read_problem(entry.key.problem, here.device, options);
}

bool can_run(const TunedEntry& entry, const KnownDevice& here) {
  try {
    return is_candidate(*tunable_of(entry, here), entry.choice);
  } catch (const std::exception&) {
    return false;  // no problem, or none that this machine runs
  }
}

constexpr const char* kFresh = "fresh";
constexpr const char* kCannotRun =
    "cannot run";  // measured here as it is, but the library has no such choice

// One of these, "stale: kernels", "other device", or "not octet's" of kernels that users tune.
std::string state_of(const TunedEntry& entry) {
  const TuningKey& key = entry.key;
  // A user's problem may have any text.
  if (entry.choice.implementation == kUsersKernel || !is_tunable(key.problem)) return "not octet's";
  const auto here = device_of(key);
  if (!here) return "other device";
  if (here->key.driver != key.driver) return "stale: driver";
  if (here->key.kernels != key.kernels) return "stale: kernels";
  return can_run(entry, *here) ? kFresh : kCannotRun;
}

std::string entries_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "entry" : "entries");
}

std::string gain_text(double gain) {
  return std::isnan(gain) ? "imported" : gain == 1 ? "default" : fmt::format("{:.3f}x", gain);
}

int list_entries(const StoreOptions& options) {
  const TuningStore store(store_path(options.store), StoreUse::read);
  const std::vector<TunedEntry> entries = store.entries();
  if (entries.empty()) {
    fmt::print("no problem is tuned in {} yet\n", printable(store.path()));
    return 0;
  }
  std::vector<bench::Row> table{
      {"id", "problem", "device", "state", "implementation", "configuration", "gain"}};
  for (const TunedEntry& entry : entries) {
    table.push_back({std::to_string(entry.id), entry.key.problem, entry.key.device, state_of(entry),
                     entry.choice.implementation, entry.choice.configuration,
                     gain_text(entry.gain)});
  }
  print_table(table, 6, options.wide);
  return 0;
}

int show_entry(const StoreOptions& options) {
  const TuningStore store(store_path(options.store), StoreUse::read);
  const auto entry = store.find(options.id);
  if (!entry) {
    refuse_usage("{} has no entry {}; octet tune list prints the entries", store.path(),
                 options.id);
  }
  fmt::print("{}\n  on {}, {}, kernels {}: {}\n", printable(entry->key.problem),
             printable(entry->key.device), printable(entry->key.driver),
             printable(entry->key.kernels), state_of(*entry));
  if (entry->trials.empty()) {
    fmt::print("  {}: {}\n",
               entry->time.empty() ? "in the table" : "imported " + printable(entry->time),
               printable(choice_text(entry->choice)));
    return 0;
  }
  fmt::print("  measured {} by octet of commit {}\n", printable(entry->time),
             printable(entry->commit));
  std::vector<bench::Row> table{{"implementation", "configuration", "predicted", "speedup"}};
  for (const TunedTrial& trial : entry->trials) {
    table.push_back({trial.choice.implementation, trial.choice.configuration,
                     fmt::format("{:.3f}", trial.predicted), trial.result});
  }
  print_table(table, 2, options.wide);
  return 0;
}

// Checks the choice of an entry that holds here: the library takes it, and its gates pass.
std::string verify(const TunedEntry& entry) {
  const std::string state = state_of(entry);
  if (state != kFresh && state != kCannotRun) return state;
  const auto here = device_of(entry.key);
  try {
    const auto tunable = tunable_of(entry, *here);
    const std::string refusal = refuse_choice(*tunable, entry.choice);
    return refusal.empty() ? "PASS" : refusal;
  } catch (const std::exception& error) {
    return std::string("ERROR: ") + error.what();
  }
}

int verify_entries(const StoreOptions& options) {
  set_process_table(nullptr);  // each entry is a table of its own
  const TuningStore store(store_path(options.store), StoreUse::read);
  const std::vector<TunedEntry> entries = store.entries();
  std::set<std::string> ops;
  for (const TunedEntry& entry : entries) {
    if (entry.choice.implementation != kUsersKernel) ops.insert(operator_of(entry.key.problem));
  }
  refuse_forced_backends(ops);
  std::vector<bench::Row> table{{"id", "problem", "result"}};
  std::size_t passed = 0, failed = 0;
  for (const TunedEntry& entry : entries) {
    const std::string result = verify(entry);
    table.push_back({std::to_string(entry.id), entry.key.problem, result});
    if (result == "PASS") ++passed;
    if (result.starts_with("FAIL") || result.starts_with("ERROR")) ++failed;
  }
  print_table(table, 3, options.wide);
  const std::size_t others = entries.size() - passed - failed;
  fmt::print("{} passed, {} failed{}\n", entries_text(passed), failed,
             others > 0 ? fmt::format(", {} not for this machine as it is", others) : "");
  return failed > 0 ? kExitFailed : 0;
}

// The entries of a store or of a table, by what the file is.
TuningEntries entries_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse_usage("{}: there is no such file", path);
  constexpr std::string_view kSqlite = "SQLite format 3";
  if (text_if_any(path).starts_with(kSqlite)) return TuningStore(path, StoreUse::read).table();
  return read_table(path).entries;
}

int diff_tables(const StoreOptions& options) {
  const TuningEntries first = entries_of(options.file);
  const TuningEntries second =
      entries_of(options.other.empty() ? store_path(options.store) : options.other);
  std::vector<bench::Row> table{{"problem", "device", "first", "second"}};
  const auto add = [&](const TuningKey& key, const std::string& a, const std::string& b) {
    table.push_back({key.problem, key.device, a, b});
  };
  for (const auto& [key, choice] : first) {
    const auto other = second.find(key);
    if (other == second.end()) {
      add(key, choice_text(choice), "-");
    } else if (!(other->second == choice)) {
      add(key, choice_text(choice), choice_text(other->second));
    }
  }
  for (const auto& [key, choice] : second) {
    if (!first.contains(key)) add(key, "-", choice_text(choice));
  }
  if (table.size() > 1) print_table(table, 4, options.wide);
  fmt::print("{} of {} and {} differ\n", entries_text(table.size() - 1), first.size(),
             second.size());
  return table.size() > 1 ? kExitFailed : 0;
}

int export_table(const StoreOptions& options) {
  const TuningStore store(store_path(options.store), StoreUse::read);
  const std::string text = table_text(store.table());
  if (options.file == "-") {
    fmt::print("{}", text);
    return 0;
  }
  constexpr std::string_view kTable = "octet tuning table";
  const std::string before = beginning_to_replace("FILE", options.file, kTable.size());
  if (!before.empty() && before != kTable)
    refuse_to_replace("FILE", options.file, "a tuning table");
  if (const int reason = bench::replace_file(options.file, bench::name_beside(options.file), text);
      reason != 0) {
    refuse_usage("{}: {}", options.file, std::strerror(reason));
  }
  fmt::print("{} written to {}\n", entries_text(store.table().size()), printable(options.file));
  return 0;
}

int import_table(const StoreOptions& options) {
  const TuningEntries entries = entries_of(options.file);
  const std::string path = store_path(options.store);
  // Of its own table all is taken, so that none of it is overruled.
  std::error_code ignored;
  const bool is_own =
      std::filesystem::equivalent(options.file, table_path(bench::link_target(path)), ignored);
  TuningStore store(path, is_own ? StoreUse::import : StoreUse::write);
  std::vector<TunedEntry> taken;
  std::size_t replaced = 0;
  for (const auto& [key, choice] : entries) {
    const auto known = store.find(key);
    if (known && known->choice == choice) continue;  // what is known of its measurement stays
    replaced += known ? 1 : 0;
    taken.push_back({.key = key, .choice = choice});
  }
  store.put(taken);
  fmt::print("{} imported into {}: {} new, {} in the place of others, {} already there\n",
             entries_text(entries.size()), printable(store.path()), taken.size() - replaced,
             replaced, entries.size() - taken.size());
  return 0;
}

int clear_store(const StoreOptions& options) {
  std::error_code ignored;
  const std::string path = store_path(options.store);
  if (!std::filesystem::exists(path, ignored) &&
      !std::filesystem::exists(table_path(path), ignored)) {
    fmt::print("no problem is tuned in {} yet\n", printable(path));
    return 0;
  }
  TuningStore store(path, StoreUse::write);
  std::vector<std::int64_t> ids;
  for (const TunedEntry& entry : store.entries()) {
    if (!options.stale || state_of(entry).starts_with("stale")) ids.push_back(entry.id);
  }
  store.remove(ids);
  fmt::print("{} removed from {}\n", entries_text(ids.size()), printable(path));
  return 0;
}

}  // namespace

void add_tune_store(CLI::App& tune, Chosen& chosen) {
  const auto add = [&](const char* name, const char* about, int (*run)(const StoreOptions&),
                       const std::function<void(CLI::App&, StoreOptions&)>& own,
                       const std::vector<std::string>& examples) {
    const auto options = std::make_shared<StoreOptions>();
    CLI::App& app = add_command(tune, name, about);
    own(app, *options);
    add_text(
        app, "--store", options->store, "FILE",
        with_default("The tuning store.",
                     "$OCTET_TUNING_STORE, or octet/tuning.sqlite in the user's state folder"));
    add_flag(app, "--wide", options->wide,
             "Show every column in full, however wide the table gets.");
    add_examples(app, examples);
    choose_when_given(app, chosen, [options, run] {
      try {
        return run(*options);
      } catch (const DatabaseError& error) {
        refuse_usage("{}", explain_store(error));
      }
    });
  };
  const auto nothing = [](CLI::App&, StoreOptions&) {};
  add("list", "List the entries of the store, and which are stale here.", list_entries, nothing,
      {"octet tune list", "octet tune list --store job.sqlite --wide"});
  add("show", "Show what was tried for one entry.", show_entry,
      [](CLI::App& app, StoreOptions& options) {
        add_whole(app, "ID", options.id, 1, std::numeric_limits<std::int64_t>::max(),
                  "The entry, as octet tune list prints it.");
        require_option(app, "ID");
      },
      {"octet tune show 3", "octet tune show 3 --wide"});
  add("verify", "Run the gates of every entry that holds on this machine.", verify_entries, nothing,
      {"octet tune verify", "octet tune verify --store job.sqlite"});
  add("diff", "Compare two stores or tables; exit status 1 if they differ.", diff_tables,
      [](CLI::App& app, StoreOptions& options) {
        add_argument(app, "FIRST", options.file, "A store or a table.");
        add_optional_argument(app, "SECOND", options.other,
                              "Another; without it the store of --store.");
      },
      {"octet tune diff rank0.table rank1.table", "octet tune diff job.table"});
  add("export", "Write the store as a tuning table.", export_table,
      [](CLI::App& app, StoreOptions& options) {
        add_argument(app, "FILE", options.file, "The table to write; - for the standard output.");
      },
      {"octet tune export job.table", "octet tune export -"});
  add("import", "Take the entries of a tuning table or of another store.", import_table,
      [](CLI::App& app, StoreOptions& options) {
        add_argument(app, "FILE", options.file, "A table or a store.");
      },
      {"octet tune import job.table", "octet tune import job.table --store other.sqlite"});
  add("clear", "Remove entries from the store.", clear_store,
      [](CLI::App& app, StoreOptions& options) {
        add_flag(app, "--stale", options.stale,
                 "Only those measured with another driver or other kernels than are here.");
      },
      {"octet tune clear --stale", "octet tune clear --store job.sqlite"});
}

}  // namespace octet::tool
