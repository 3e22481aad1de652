#include "tool/reporting/comparison_text.hpp"

#include "tool/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octet::tool {
namespace {

constexpr std::size_t kMovers = 5;

std::string percent(double fraction) { return fmt::format("{:+.2f} %", fraction * 100); }

void print_score(const Comparison& comparison, const char* unit) {
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
  std::vector<std::vector<std::string>> table{
      {"  case", std::string("before ") + unit, "after", "change", "noise"}};
  for (const Change& change : changes) {
    table.push_back({"  " + change.before.key, fmt::format("{:.4g}", change.before.step_rate()),
                     fmt::format("{:.4g}", change.after.step_rate()), percent(change.delta),
                     fmt::format("{:.2f} %", change.noise * 100)});
  }
  print_table(table, 1);
}

// The worst (or, from the other end, the best) of those that moved beyond the noise, and every one
// beyond the threshold.
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

void print_checks(const Comparison& comparison) {
  for (const Change& change : comparison.changes) {
    if (change.before.check == change.after.check) continue;
    fmt::print("{} -> {}: {}\n", change.before.check, change.after.check, change.before.key);
  }
  for (const std::string& key : comparison.only_old) fmt::print("only in the old: {}\n", key);
  for (const std::string& key : comparison.only_new) fmt::print("only in the new: {}\n", key);
}

void print_verdict(const Comparison& comparison, double threshold) {
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

}  // namespace

void print_comparison(const Comparison& comparison, const char* unit, double threshold) {
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

}  // namespace octet::tool
