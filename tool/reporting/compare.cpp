// octet compare: the differences between two runs of the same cases. Exit status 1 if the second is
// worse.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/result_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

namespace octet::tool {
namespace {

struct CompareOptions {
  std::string before;
  std::string after;
  std::optional<double> threshold_percent;
  bool any_device = false;

  double threshold() const { return threshold_percent.value_or(kThresholdPercent) / 100; }
};

constexpr std::size_t kMovers = 5;

std::string percent(double fraction) { return fmt::format("{:+.2f} %", fraction * 100); }

void print_score(const ResultComparison& comparison, const char* unit) {
  if (std::isnan(comparison.score_before)) {
    fmt::print("score: none, no case is PASS in both\n");
    return;
  }
  fmt::print("score: {:.4g} -> {:.4g} {}, {}{} (noise {:.2f} %)\n", comparison.score_before,
             comparison.score_after, unit, percent(comparison.score_delta()),
             comparison.score_fell() ? ", a fall beyond the noise" : "",
             comparison.score_noise * 100);
}

void print_distribution(const std::vector<Change>& timed) {
  if (timed.empty()) return;
  std::vector<double> deltas;
  deltas.reserve(timed.size());
  for (const Change& change : timed) deltas.push_back(change.delta);
  const Quartiles spread = quartiles(deltas);
  fmt::print("step: median {}, quartiles {} and {}\n", percent(spread.middle), percent(spread.low),
             percent(spread.high));
  for (const double bound : {0.01, 0.05}) {
    const auto count = [&](int sign) {
      return std::count_if(timed.begin(), timed.end(), [&](const Change& change) {
        return change.beyond_noise() && change.delta * sign > bound;
      });
    };
    fmt::print("  beyond {:.0f} % and the noise: {} slower, {} faster of {}\n", bound * 100,
               count(-1), count(1), timed.size());
  }
}

void print_changes(const char* title, const std::vector<Change>& changes, const char* unit) {
  if (changes.empty()) return;
  fmt::print("{}\n", title);
  std::vector<bench::Row> table{
      {"  case", std::string("before ") + unit, "after", "change", "noise"}};
  for (const Change& change : changes) {
    table.push_back({"  " + change.before.key, fmt::format("{:.4g}", change.before.step_rate()),
                     fmt::format("{:.4g}", change.after.step_rate()), percent(change.delta),
                     fmt::format("{:.2f} %", change.noise * 100)});
  }
  print_table(table, 1);
}

// The few cases that moved most beyond the noise, slower (sign < 0) or faster (sign > 0), and every
// one beyond the threshold.
std::vector<Change> movers(std::vector<Change> timed, int sign, double threshold) {
  if (sign > 0) std::reverse(timed.begin(), timed.end());
  std::vector<Change> some;
  for (const Change& change : timed) {
    if (!change.beyond_noise() || change.delta * sign <= 0) continue;
    if (some.size() < kMovers || change.delta * sign > threshold) some.push_back(change);
  }
  return some;
}

std::vector<Change> hidden_by_noise(const std::vector<Change>& timed, double threshold) {
  std::vector<Change> some = timed;
  std::erase_if(some, [&](const Change& change) {
    return change.beyond_noise() || change.delta >= -threshold;
  });
  return some;
}

void print_checks(const ResultComparison& comparison) {
  for (const Change& change : comparison.changes) {
    if (change.before.check == change.after.check) continue;
    fmt::print("{} -> {}: {}\n", change.before.check, change.after.check, change.before.key);
  }
  for (const std::string& key : comparison.only_old) fmt::print("only in the old: {}\n", key);
  for (const std::string& key : comparison.only_new) fmt::print("only in the new: {}\n", key);
}

void print_verdict(const ResultComparison& comparison, double threshold) {
  if (!comparison.is_regression(threshold)) {
    fmt::print("no regression\n");
    return;
  }
  std::vector<std::string> reasons;
  if (comparison.score_fell()) reasons.push_back("the score fell");
  if (const auto lost = comparison.lost(threshold).size(); lost > 0) {
    reasons.push_back(fmt::format("{} slower by more than {:g} %", lost, threshold * 100));
  }
  if (const auto broken = comparison.broken().size(); broken > 0) {
    reasons.push_back(fmt::format("{} no longer PASS", broken));
  }
  fmt::print("REGRESSION: {}\n", fmt::join(reasons, ", "));
}

// Prints the score, the distribution of the changes, the largest changes, changed checks and the
// verdict.
void print_comparison(const ResultComparison& comparison, const char* unit, double threshold) {
  const std::vector<Change> timed = comparison.timed();
  print_score(comparison, unit);
  print_distribution(timed);
  print_changes("slower:", movers(timed, -1, threshold), unit);
  print_changes("faster:", movers(timed, 1, threshold), unit);
  print_changes("slower by more than the threshold, but not than the noise:",
                hidden_by_noise(timed, threshold), unit);
  print_checks(comparison);
  print_verdict(comparison, threshold);
}

ParsedResults read_one(const std::string& path) {
  auto parsed = read_results_file(path);
  if (!parsed) {
    refuse_usage("{}: its columns are not those of octet bench, wanted a CSV of results", path);
  }
  return *std::move(parsed);
}

int show(const ComparedResults& pair, const CompareOptions& options) {
  fmt::print("{} -> {}: {}, {} cases in both\n", pair.before->source, pair.after->source,
             pair.before->kind->op, pair.comparison.changes.size());
  print_comparison(pair.comparison, pair.before->kind->unit, options.threshold());
  return pair.comparison.is_regression(options.threshold()) ? kExitFailed : 0;
}

int compare_files(const CompareOptions& options) {
  const ParsedResults before = read_one(options.before);
  const ParsedResults after = read_one(options.after);
  return show({&before, &after, compare_results(before, after, options.any_device)}, options);
}

int compare_folders(const CompareOptions& options) {
  const ResultFolder before = read_results_folder(options.before);
  const ResultFolder after = read_results_folder(options.after);
  const ComparedFolders compared = compare_results(before, after, options.any_device);
  int status = 0;
  for (const ComparedResults& pair : compared.pairs) {
    status = std::max(status, show(pair, options));
    fmt::print("\n");
  }
  for (const std::string& path : compared.unpaired) fmt::print("{}: nothing to compare\n", path);
  print_skipped(before);
  print_skipped(after);
  return status;
}

int compare(const CompareOptions& options) {
  std::error_code ignored;
  const bool old_folder = std::filesystem::is_directory(options.before, ignored);
  const bool new_folder = std::filesystem::is_directory(options.after, ignored);
  if (old_folder != new_folder) {
    refuse_usage("{} is a folder and {} is not: wanted two CSVs or two folders",
                 old_folder ? options.before : options.after,
                 old_folder ? options.after : options.before);
  }
  return old_folder ? compare_folders(options) : compare_files(options);
}

}  // namespace

void add_compare(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "compare",
                              "what two runs differ in; exit status 1 where the second is worse");
  const auto options = std::make_shared<CompareOptions>();
  add_argument(app, "OLD", options->before, "a CSV of results, or a folder of them");
  add_argument(app, "NEW", options->after, "what to compare with it");
  add_real(app, "--threshold", options->threshold_percent,
           "the loss of one case, in percent, that is a regression [default: 5]");
  add_flag(app, "--any-device", options->any_device, "compare results of different devices too");
  choose_when_given(app, chosen, [options] { return compare(*options); });
}

}  // namespace octet::tool
