#include "tool/reporting/result_comparison.hpp"

#include "tool/options/parse.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace octet::tool {
namespace {

std::string devices(const ParsedResults& results) {
  std::set<std::string> names;
  for (const ParsedRow& row : results.rows) names.insert(row.device);
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_comparable(const ParsedResults& before, const ParsedResults& after, bool any_device) {
  if (before.kind != after.kind) {
    refuse_usage("{} has results of {} and {} of {}: wanted two of one operator", before.source,
                 before.kind->op, after.source, after.kind->op);
  }
  if (!any_device && devices(before) != devices(after)) {
    refuse_usage(
        "{} was measured on {} and {} on {}: wanted the same; --any-device compares anyway",
        before.source, devices(before), after.source, devices(after));
  }
}

// Rows by key. A second row with the same key is a case of its own.
std::map<std::string, ParsedRow> by_key(const ParsedResults& results) {
  std::map<std::string, ParsedRow> rows;
  for (const ParsedRow& row : results.rows) {
    std::string key = row.key;
    for (int again = 2; rows.count(key) > 0; ++again) key = fmt::format("{} #{}", row.key, again);
    rows.emplace(key, row);
  }
  return rows;
}

Change change_of(const ParsedRow& before, const ParsedRow& after) {
  Change change{before, after};
  if (!change.both_passed()) return change;
  change.delta = after.step_rate() / before.step_rate() - 1;
  // In files that octet writes, rate and time agree. If one was edited, the worse counts.
  if (!std::isnan(before.time_ms)) {
    change.delta = std::min(change.delta, before.time_ms / after.time_ms - 1);
  }
  change.noise = (before.spread + after.spread) / 2;
  return change;
}

void score(ResultComparison& comparison) {
  std::vector<double> before;
  std::vector<double> after;
  std::vector<double> noise;
  for (const Change& change : comparison.timed()) {
    before.push_back(change.before.step_rate());
    after.push_back(change.before.step_rate() * (1 + change.delta));
    noise.push_back(change.noise);
  }
  comparison.score_before = bench::geometric_mean(before);
  comparison.score_after = bench::geometric_mean(after);
  comparison.score_noise = bench::median(noise);
}

template <class Wanted>
std::vector<Change> changes_that(const std::vector<Change>& changes, Wanted wanted) {
  std::vector<Change> some;
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(some), wanted);
  return some;
}

}  // namespace

std::vector<Change> ResultComparison::timed() const {
  return changes_that(changes, [](const Change& change) { return change.both_passed(); });
}

std::vector<Change> ResultComparison::lost(double threshold) const {
  return changes_that(changes, [&](const Change& change) {
    return change.delta < -threshold && change.beyond_noise();
  });
}

std::vector<Change> ResultComparison::broken() const {
  return changes_that(changes, [](const Change& change) { return change.broke(); });
}

bool ResultComparison::is_regression(double threshold) const {
  return score_fell() || !lost(threshold).empty() || !broken().empty();
}

// The lower and upper quartiles are the medians of the two halves.
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto half = static_cast<std::ptrdiff_t>((values.size() + 1) / 2);
  return {bench::median({values.begin(), values.begin() + half}), bench::median(values),
          bench::median({values.end() - half, values.end()})};
}

ResultComparison compare_results(const ParsedResults& before, const ParsedResults& after,
                                 bool any_device) {
  check_comparable(before, after, any_device);
  const std::map<std::string, ParsedRow> old_rows = by_key(before);
  const std::map<std::string, ParsedRow> new_rows = by_key(after);
  ResultComparison comparison;
  for (const auto& [key, row] : old_rows) {
    const auto found = new_rows.find(key);
    if (found == new_rows.end()) {
      comparison.only_old.push_back(key);
    } else {
      comparison.changes.push_back(change_of(row, found->second));
    }
  }
  for (const auto& [key, row] : new_rows) {
    if (old_rows.count(key) == 0) comparison.only_new.push_back(key);
  }
  if (comparison.changes.empty()) {
    refuse_usage("{} and {} have no case in common; the first of each: {}; {}", before.source,
                 after.source, before.rows.empty() ? "none" : before.rows[0].key,
                 after.rows.empty() ? "none" : after.rows[0].key);
  }
  std::stable_sort(comparison.changes.begin(), comparison.changes.end(),
                   [](const Change& a, const Change& b) { return a.delta < b.delta; });
  score(comparison);
  return comparison;
}

ComparedFolders compare_results(const ResultFolder& before, const ResultFolder& after,
                                bool any_device) {
  ComparedFolders compared;
  for (std::size_t i = 0; i < before.results.size(); ++i) {
    const ParsedResults* other = after.find(before.names[i]);
    if (other == nullptr) {
      compared.unpaired.push_back(before.results[i].source);
    } else {
      compared.pairs.push_back(
          {&before.results[i], other, compare_results(before.results[i], *other, any_device)});
    }
  }
  for (std::size_t i = 0; i < after.results.size(); ++i) {
    if (before.find(after.names[i]) == nullptr)
      compared.unpaired.push_back(after.results[i].source);
  }
  if (compared.pairs.empty()) {
    refuse_usage("no two files have one name, wanted a run of the same files: {}",
                 fmt::join(compared.unpaired, ", "));
  }
  return compared;
}

}  // namespace octet::tool
