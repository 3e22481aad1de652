// octet history: what was measured on this machine, when and with which commit.
#include "tool/console.hpp"
#include "tool/history/history.hpp"
#include "tool/options/options.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>

namespace octet::tool {
namespace {

// "97.6 GFLOPS": in a unit that fits the value, given in "TFLOPS" or "TB/s".
std::string rate_text(double value, const std::string& base) {
  const bench::Unit unit = bench::fitting_unit(base, {value});
  return std::isnan(value) ? "-" : fmt::format("{} {}", unit.text(value), unit.name);
}

// The database has "1 threads" too, by which rows are grouped.
std::string device_text(std::string device) {
  if (device.ends_with(", 1 threads")) device.pop_back();
  return device;
}

std::string recorded_path() {
  const auto path = history_path();
  if (!path)
    refuse_usage("the history is off: OCTET_HISTORY is \"{}\"", std::getenv("OCTET_HISTORY"));
  return *path;
}

// Null if nothing was recorded yet.
std::unique_ptr<Database> recorded(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? open_history(path, false) : nullptr;
}

// The geometric mean of the step's rate over the rows that passed, as everywhere.
double score(Database& database, std::int64_t run) {
  Statement rates(database, "SELECT rate FROM results WHERE run = ?1 AND result = 'PASS'");
  rates.give(run);
  std::vector<double> values;
  while (rates.step()) {
    if (!std::isnan(rates.real(0))) values.push_back(rates.real(0));
  }
  return bench::geometric_mean(values);
}

void list_runs(Database& database, std::int64_t last, bool wide) {
  Statement runs(database,
                 "SELECT * FROM (SELECT runs.id, began, commit_id, device, op, count(results.id), "
                 "unit FROM runs JOIN results ON run = runs.id GROUP BY runs.id ORDER BY runs.id "
                 "DESC LIMIT ?1) ORDER BY id");
  runs.give(last);
  std::vector<bench::Row> table{{"run", "time", "commit", "device", "op", "rows", "score"}};
  while (runs.step()) {
    table.push_back({runs.text(0), runs.text(1), runs.text(2), device_text(runs.text(3)),
                     runs.text(4), runs.text(5),
                     rate_text(score(database, runs.whole(0)), runs.text(6))});
  }
  print_table(table, 5, wide);
}

void show_run(Database& database, std::int64_t id, bool wide) {
  Statement run(database, "SELECT began, commit_id, device, op, unit FROM runs WHERE id = ?1");
  run.give(id);
  if (!run.step()) refuse_usage("there is no run {}; octet history list prints the runs", id);
  fmt::print("run {} of {}, {}, commit {}, {}\n", id, printable(run.text(3)),
             printable(run.text(0)), printable(run.text(1)), printable(device_text(run.text(2))));
  Statement rows(database,
                 "SELECT test_id, shape, dtype, result, rate, settings FROM results WHERE run = ?1 "
                 "ORDER BY id");
  rows.give(id);
  std::vector<bench::Row> table{{"test", "shape", "dtype", "check", "settings", "rate"}};
  while (rows.step()) {
    table.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(5),
                     rate_text(rows.real(4), run.text(4))});
  }
  print_table(table, 5, wide);
}

// In a group with max(), SQLite takes the other columns from the row with the maximum.
void best_rows(Database& database, bool wide) {
  Statement rows(
      database,
      "SELECT op, shape, dtype, device, settings, commit_id, time, unit, max(rate) "
      "FROM results JOIN runs ON run = runs.id WHERE result = 'PASS' AND rate NOT NULL "
      "GROUP BY op, shape, dtype, device, settings ORDER BY op, device, dtype, settings, "
      "min(results.id)");
  std::vector<bench::Row> table{
      {"op", "shape", "dtype", "device", "settings", "commit", "time", "best"}};
  while (rows.step()) {
    table.push_back({rows.text(0), rows.text(1), rows.text(2), device_text(rows.text(3)),
                     rows.text(4), rows.text(5), rows.text(6),
                     rate_text(rows.real(8), rows.text(7))});
  }
  print_table(table, 7, wide);
}

void require_runs_of(Database& database, const std::string& op) {
  Statement rows(database, "SELECT DISTINCT op FROM runs ORDER BY op");
  std::vector<std::string> ops;
  while (rows.step()) ops.push_back(rows.text(0));
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) {
    refuse_usage("--op {}: no run of it is recorded; there are runs of: {}", op,
                 fmt::join(ops, ", "));
  }
}

void show_trend(Database& database, const std::string& op, const std::string& shape, bool wide) {
  require_runs_of(database, op);
  Statement rows(
      database,
      "SELECT device, dtype, settings, commit_id, min(time), count(*), unit, max(rate) "
      "FROM results JOIN runs ON run = runs.id WHERE op = ?1 AND shape = ?2 AND result = "
      "'PASS' AND rate NOT NULL GROUP BY device, dtype, settings, commit_id "
      "ORDER BY device, dtype, settings, min(results.id)");
  rows.give(op).give(shape);
  std::vector<bench::Row> table{
      {"device", "dtype", "settings", "first", "commit", "rows", "best", "change"}};
  std::string series;
  double before = std::numeric_limits<double>::quiet_NaN();
  while (rows.step()) {
    const std::string name = rows.text(0) + '\n' + rows.text(1) + '\n' + rows.text(2);
    const double rate = rows.real(7);
    const bool goes_on = name == series;
    table.push_back({device_text(rows.text(0)), rows.text(1), rows.text(2), rows.text(4),
                     rows.text(3), rows.text(5), rate_text(rate, rows.text(6)),
                     goes_on ? fmt::format("{:+.1f} %", (rate / before - 1) * 100) : ""});
    series = name;
    before = rate;
  }
  if (table.size() == 1) refuse_usage("no row of {} that passed has the shape {}", op, shape);
  print_table(table, 5, wide);
}

// A command that lists the whole history prints that it is empty; one that names a run or a shape
// is refused.
enum class EmptyHistory { printed, refused };

template <class Print>
int print_history(EmptyHistory if_empty, Print print) {
  try {
    const std::string path = recorded_path();
    if (const auto database = recorded(path)) {
      print(*database);
    } else if (if_empty == EmptyHistory::refused) {
      refuse_usage("no run is recorded in {} yet", path);
    } else {
      fmt::print("no run is recorded in {} yet\n", printable(path));
    }
    return 0;
  } catch (const DatabaseError& error) {
    refuse_usage("{}", error.what());
  }
}

}  // namespace

void add_history(CLI::App& octet, Chosen& chosen) {
  struct Options {
    std::int64_t last = 50;
    std::int64_t id = 0;
    std::string shape;
    std::string op = "gemm";
    bool wide = false;
  };
  constexpr std::int64_t kLastId = std::numeric_limits<std::int64_t>::max();
  const auto options = std::make_shared<Options>();
  const auto add_wide = [options](CLI::App& app) {
    add_flag(app, "--wide", options->wide,
             "Show every column in full, however wide the table gets.");
  };
  CLI::App& history = add_command(octet, "history", "List what was measured on this machine.");
  require_command(history);
  add_examples(history, {"octet history list --last 10", "octet history best"});

  CLI::App& list = add_command(history, "list", "List the runs: time, commit, device and score.");
  add_whole(list, "--last", options->last, 1, kLastId, "How many of the latest runs to list.");
  add_wide(list);
  add_examples(list, {"octet history list", "octet history list --last 10 --wide"});
  choose_when_given(list, chosen, [options] {
    return print_history(EmptyHistory::printed,
                         [&](Database& d) { list_runs(d, options->last, options->wide); });
  });

  CLI::App& show = add_command(history, "show", "Show the rows of one run.");
  add_whole(show, "ID", options->id, 1, kLastId, "The run, as octet history list prints it.");
  require_option(show, "ID");
  add_wide(show);
  add_examples(show, {"octet history show 12", "octet history show 12 --wide"});
  choose_when_given(show, chosen, [options] {
    return print_history(EmptyHistory::refused,
                         [&](Database& d) { show_run(d, options->id, options->wide); });
  });

  CLI::App& best =
      add_command(history, "best", "Show the best row of every shape, with its commit.");
  add_wide(best);
  add_examples(best, {"octet history best", "octet history best --wide"});
  choose_when_given(best, chosen, [options] {
    return print_history(EmptyHistory::printed, [&](Database& d) { best_rows(d, options->wide); });
  });

  CLI::App& trend = add_command(history, "trend", "Show the best row of a shape for each commit.");
  add_text(trend, "--shape", options->shape, "MxNxK", "The shape, as octet bench takes it.");
  require_option(trend, "--shape");
  add_text(trend, "--op", options->op, "OP", "The operator.");
  add_wide(trend);
  add_examples(trend, {"octet history trend --shape 4096x4096x4096",
                       "octet history trend --op quantize --shape 16384x4096"});
  choose_when_given(trend, chosen, [options] {
    return print_history(EmptyHistory::refused, [&](Database& d) {
      show_trend(d, options->op, options->shape, options->wide);
    });
  });
}

}  // namespace octet::tool
