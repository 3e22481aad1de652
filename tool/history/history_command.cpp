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

std::string digits(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string rate_text(double value, const std::string& unit) {
  return std::isnan(value) ? "-" : fmt::format("{} {}", digits(value), unit);
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

double score(Database& database, std::int64_t run) {
  Statement rates(database, "SELECT rate FROM results WHERE run = ?1 AND result = 'PASS'");
  rates.give(run);
  std::vector<double> values;
  while (rates.step()) {
    if (!std::isnan(rates.real(0))) values.push_back(rates.real(0));
  }
  return bench::geometric_mean(values);
}

void list_runs(Database& database, std::int64_t last) {
  Statement runs(database,
                 "SELECT * FROM (SELECT runs.id, began, commit_id, device, op, count(results.id), "
                 "unit FROM runs JOIN results ON run = runs.id GROUP BY runs.id ORDER BY runs.id "
                 "DESC LIMIT ?1) ORDER BY id");
  runs.give(last);
  std::vector<bench::Row> table{{"run", "time", "commit", "device", "op", "rows", "score"}};
  while (runs.step()) {
    table.push_back({runs.text(0), runs.text(1), runs.text(2), runs.text(3), runs.text(4),
                     runs.text(5), rate_text(score(database, runs.whole(0)), runs.text(6))});
  }
  print_table(table, 5);
}

void show_run(Database& database, std::int64_t id) {
  Statement run(database, "SELECT began, commit_id, device, op, unit FROM runs WHERE id = ?1");
  run.give(id);
  if (!run.step()) refuse_usage("there is no run {}; octet history list has those there are", id);
  fmt::print("run {} of {}, {}, commit {}, {}\n", id, run.text(3), run.text(0), run.text(1),
             run.text(2));
  Statement rows(database,
                 "SELECT test_id, shape, dtype, result, rate, settings FROM results WHERE run = ?1 "
                 "ORDER BY id");
  rows.give(id);
  std::vector<bench::Row> table{{"test", "shape", "dtype", "check", "settings", run.text(4)}};
  while (rows.step()) {
    table.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(5),
                     digits(rows.real(4))});
  }
  print_table(table, 5);
}

// In a group with max(), SQLite takes the other columns from the row with the maximum.
void best_rows(Database& database) {
  Statement rows(
      database,
      "SELECT op, shape, dtype, device, settings, commit_id, time, unit, max(rate) "
      "FROM results JOIN runs ON run = runs.id WHERE result = 'PASS' AND rate NOT NULL "
      "GROUP BY op, shape, dtype, device, settings ORDER BY op, device, dtype, settings, "
      "min(results.id)");
  std::vector<bench::Row> table{
      {"op", "shape", "dtype", "device", "settings", "commit", "time", "best"}};
  while (rows.step()) {
    table.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4),
                     rows.text(5), rows.text(6), rate_text(rows.real(8), rows.text(7))});
  }
  print_table(table, 7);
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

void show_trend(Database& database, const std::string& op, const std::string& shape) {
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
    table.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(4), rows.text(3),
                     rows.text(5), rate_text(rate, rows.text(6)),
                     goes_on ? fmt::format("{:+.1f} %", (rate / before - 1) * 100) : ""});
    series = name;
    before = rate;
  }
  if (table.size() == 1) refuse_usage("no row of {} that passed has the shape {}", op, shape);
  print_table(table, 5);
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
      fmt::print("no run is recorded in {} yet\n", path);
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
  };
  constexpr std::int64_t kLastId = std::numeric_limits<std::int64_t>::max();
  const auto options = std::make_shared<Options>();
  CLI::App& history = add_command(octet, "history", "what was measured on this machine");
  require_command(history);

  CLI::App& list = add_command(history, "list", "the runs");
  add_whole(list, "--last", options->last, 1, kLastId, "how many of the latest [default: 50]");
  choose_when_given(list, chosen, [options] {
    return print_history(EmptyHistory::printed, [&](Database& d) { list_runs(d, options->last); });
  });

  CLI::App& show = add_command(history, "show", "the rows of a run");
  add_whole(show, "ID", options->id, 1, kLastId, "as octet history list prints it");
  choose_when_given(show, chosen, [options] {
    if (options->id == 0) refuse_usage("ID must be given, as octet history list has it");
    return print_history(EmptyHistory::refused, [&](Database& d) { show_run(d, options->id); });
  });

  CLI::App& best = add_command(history, "best", "the best row of every shape, and its commit");
  choose_when_given(best, chosen, [] { return print_history(EmptyHistory::printed, best_rows); });

  CLI::App& trend = add_command(history, "trend", "a shape, commit by commit");
  add_text(trend, "--shape", options->shape, "MxNxK", "the shape, as octet bench takes it");
  add_text(trend, "--op", options->op, "OP", "the operator [default: gemm]");
  choose_when_given(trend, chosen, [options] {
    if (options->shape.empty()) refuse_usage("--shape must be given, as octet bench takes it");
    return print_history(EmptyHistory::refused,
                         [&](Database& d) { show_trend(d, options->op, options->shape); });
  });
}

}  // namespace octet::tool
