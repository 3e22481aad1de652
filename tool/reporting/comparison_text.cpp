#include "tool/reporting/comparison_text.hpp"

#include "tool/console.hpp"
#include "tool/reporting/paired_ratios.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace octet::tool {
namespace {

using bench::Unit;

constexpr std::size_t kMovers = 5;

std::string percent(double fraction) { return fmt::format("{:+.2f} %", fraction * 100); }

bool has_moved(const Change& change, double bound) {
  return change.beyond_noise() && std::abs(change.delta) > bound;
}

// Cases whose rate fell (sign < 0) or rose (sign > 0) by more than `bound` and the noise.
std::string moved_count(const std::vector<Change>& timed, std::size_t rate, int sign,
                        double bound) {
  return std::to_string(std::count_if(timed.begin(), timed.end(), [&](const Change& change) {
    const double delta = change.deltas[rate] * sign;
    return delta > bound && delta > change.noise;
  }));
}

// 0.98 -> -0.02, as a geometric mean, like the score.
double mean_of(const std::vector<double>& deltas) {
  std::vector<double> ratios;
  ratios.reserve(deltas.size());
  for (const double delta : deltas) ratios.push_back(1 + delta);
  return bench::geometric_mean(ratios) - 1;
}

Unit unit_of(const ComparedResults& pair) {
  std::vector<double> rates;
  for (const Change& change : pair.comparison.timed()) {
    rates.push_back(change.before.step_rate());
    rates.push_back(change.after.step_rate());
  }
  return bench::fitting_unit(pair.before->kind->unit, rates);
}

void print_settings(const ResultComparison& comparison, bool wide) {
  if (comparison.settings.empty()) return;
  std::vector<bench::Row> table{{"other settings", "old", "new", "cases"}};
  for (const ComparedSetting& setting : comparison.settings) {
    const std::string cases =
        setting.other_cases == 0
            ? std::to_string(setting.cases)
            : fmt::format("{}, {} with other values", setting.cases, setting.other_cases);
    table.push_back({setting.change.name, setting.change.before, setting.change.after, cases});
  }
  print_table(table, 3, wide);
}

void print_score(const ResultComparison& comparison, const Unit& unit) {
  if (std::isnan(comparison.score_before)) {
    fmt::print("score: none, no case is PASS in both\n");
    return;
  }
  fmt::print("score: {} -> {} {}, {}{} (noise {:.2f} %)\n", unit.text(comparison.score_before),
             unit.text(comparison.score_after), unit.name, percent(comparison.score_delta()),
             comparison.score_fell() ? ", a fall beyond the noise" : "",
             comparison.score_noise * 100);
}

void print_rates(const ResultKind& kind, const std::vector<Change>& timed, bool wide) {
  if (timed.empty()) return;
  std::vector<bench::Row> table{
      {"change", "median", "mean", "quartiles", "slower >1, 5 %", "faster >1, 5 %"}};
  for (std::size_t rate = 0; rate < kind.rates.size(); ++rate) {
    std::vector<double> deltas;
    deltas.reserve(timed.size());
    for (const Change& change : timed) deltas.push_back(change.deltas[rate]);
    const Quartiles spread = quartiles(deltas);
    const auto counts = [&](int sign) {
      return fmt::format("{}, {}", moved_count(timed, rate, sign, 0.01),
                         moved_count(timed, rate, sign, 0.05));
    };
    table.push_back({kind.rates[rate].title, percent(spread.middle), percent(mean_of(deltas)),
                     fmt::format("{:+.2f} to {:+.2f} %", spread.low * 100, spread.high * 100),
                     counts(-1), counts(1)});
  }
  print_table(table, 1, wide);
  fmt::print("over {} PASS in both; slower and faster also exceed the noise of the case\n",
             counted(timed.size(), "case"));
}

void print_models(const std::vector<Change>& timed, const Unit& unit, bool wide) {
  std::map<std::string, std::vector<Change>> models;
  for (const Change& change : timed) {
    if (!change.before.model.empty()) models[change.before.model].push_back(change);
  }
  if (models.empty()) return;
  std::vector<bench::Row> table{
      {"model", "old " + unit.name, "new", "change", "slower >1 %", "faster >1 %", "cases"}};
  for (const auto& [model, changes] : models) {
    std::vector<double> before;
    std::vector<double> deltas;
    for (const Change& change : changes) {
      before.push_back(change.before.step_rate());
      deltas.push_back(change.delta);
    }
    const std::size_t step = changes.front().deltas.size() - 1;
    const double mean = bench::geometric_mean(before);
    const double delta = mean_of(deltas);
    table.push_back({model, unit.text(mean), unit.text(mean * (1 + delta)), percent(delta),
                     moved_count(changes, step, -1, 0.01), moved_count(changes, step, 1, 0.01),
                     std::to_string(changes.size())});
  }
  print_table(table, 1, wide);
}

void print_changes(const char* title, const std::vector<Change>& changes, const Unit& unit,
                   bool wide) {
  if (changes.empty()) return;
  std::vector<bench::Row> table{{title, "problem", "old " + unit.name, "new", "change", "noise"}};
  for (const Change& change : changes) {
    const ParsedRow& row = change.before;
    table.push_back({"  " + row.label(), row.key.substr(row.label().size() + 1),
                     unit.text(row.step_rate()), unit.text(change.after.step_rate()),
                     percent(change.delta), fmt::format("{:.2f} %", change.noise * 100)});
  }
  print_table(table, 2, wide);
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

bool has_other_check(const Change& change) { return change.before.check != change.after.check; }

void print_checks(const ResultComparison& comparison) {
  for (const Change& change : comparison.changes) {
    if (!has_other_check(change)) continue;
    fmt::print("{} -> {}: {}\n", change.before.check, change.after.check,
               printable(change.before.key));
  }
  for (const std::string& key : comparison.only_old) {
    fmt::print("only in the old: {}\n", printable(key));
  }
  for (const std::string& key : comparison.only_new) {
    fmt::print("only in the new: {}\n", printable(key));
  }
}

std::string regression_reasons(const ResultComparison& comparison, double threshold) {
  std::vector<std::string> reasons;
  if (comparison.score_fell()) reasons.emplace_back("the score fell");
  if (const auto lost = comparison.lost(threshold).size(); lost > 0) {
    reasons.push_back(fmt::format("{} slower by more than {:g} %", lost, threshold * 100));
  }
  if (const auto broken = comparison.broken().size(); broken > 0) {
    reasons.push_back(fmt::format("{} no longer PASS", broken));
  }
  return fmt::format("{}", fmt::join(reasons, ", "));
}

}  // namespace

Verdict verdict_of(const ResultComparison& comparison, const JudgeOptions& options) {
  if (!options.any_settings && !comparison.can_be_judged()) return Verdict::none;
  if (comparison.is_regression(options.threshold)) return Verdict::regression;
  const bool moved = std::any_of(
      comparison.changes.begin(), comparison.changes.end(),
      [](const Change& change) { return has_moved(change, 0.01) || has_other_check(change); });
  const bool same_cases = comparison.only_old.empty() && comparison.only_new.empty();
  return moved || !same_cases ? Verdict::moved : Verdict::same;
}

std::string reason_of(const ResultComparison& comparison, const JudgeOptions& options) {
  switch (verdict_of(comparison, options)) {
    case Verdict::regression: return regression_reasons(comparison, options.threshold);
    case Verdict::none: {
      std::vector<SettingChange> changes;
      for (const ComparedSetting& setting : comparison.settings) {
        if (setting.decides) changes.push_back(setting.change);
      }
      return printable(changes_text(changes));
    }
    default: return "";
  }
}

ScoreTexts scores_of(const ComparedResults& pair) {
  const ResultComparison& comparison = pair.comparison;
  if (std::isnan(comparison.score_before)) return {"-", "-", "-"};
  const Unit unit = unit_of(pair);
  return {unit.text(comparison.score_before),
          fmt::format("{} {}", unit.text(comparison.score_after), unit.name),
          percent(comparison.score_delta())};
}

void print_differences(const ComparedResults& pair, const JudgeOptions& options) {
  const ResultComparison& comparison = pair.comparison;
  const std::vector<Change> timed = comparison.timed();
  const Unit unit = unit_of(pair);
  print_settings(comparison, options.wide);
  print_score(comparison, unit);
  print_rates(*pair.before->kind, timed, options.wide);
  print_models(timed, unit, options.wide);
  print_changes("slower", movers(timed, -1, options.threshold), unit, options.wide);
  print_changes("faster", movers(timed, 1, options.threshold), unit, options.wide);
  print_changes("slower, but within the noise", hidden_by_noise(timed, options.threshold), unit,
                options.wide);
}

void print_comparison(const ComparedResults& pair, const JudgeOptions& options) {
  fmt::print("{} -> {}: {}, {} in both\n", printable(pair.before->source),
             printable(pair.after->source), printable(pair.named(title_of_row(*pair.before, 0))),
             counted(pair.comparison.changes.size(), "case"));
  print_differences(pair, options);
  print_checks(pair.comparison);
}

}  // namespace octet::tool
