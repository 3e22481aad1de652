#include "tool/reporting/result_comparison.hpp"

#include "tool/options/parse.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace octet::tool {
namespace {

std::string devices(const ParsedResults& results) {
  std::set<std::string> names;
  for (const ParsedRow& row : results.rows) names.insert(row.device);
  return fmt::format("{}", fmt::join(names, ", "));
}

using Places = std::map<std::string, std::size_t>;  // index of a row by its key

// A second row with the same key is a case of its own.
template <class KeyOf>
Places places_of(const ParsedResults& results, KeyOf key_of) {
  Places places;
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    const std::string first = key_of(results.rows[i]);
    std::string key = first;
    for (int again = 2; places.count(key) > 0; ++again) key = fmt::format("{} #{}", first, again);
    places.emplace(key, i);
  }
  return places;
}

bool have_common_key(const Places& a, const Places& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& row) { return b.count(row.first) > 0; });
}

// The rows of both files by the same key.
struct KeyedRows {
  Places before;
  Places after;
};

KeyedRows keyed_rows(const ParsedResults& before, const ParsedResults& after) {
  const auto whole = [](const ParsedRow& row) { return row.key; };
  KeyedRows rows{places_of(before, whole), places_of(after, whole)};
  // Rows of a kind with a variant hold several products of one shape.
  if (have_common_key(rows.before, rows.after) || !before.kind->variant.empty()) return rows;
  const auto without_options = [](const ParsedRow& row) { return row.label(); };
  return {places_of(before, without_options), places_of(after, without_options)};
}

// The rows of one random group, or of none.
struct PairedGroup {
  std::vector<RowPair> pairs;
  std::vector<std::string> only_old;
  std::vector<std::string> only_new;
};

Change change_of(const ParsedRow& before, const ParsedRow& after) {
  Change change{before, after};
  if (!change.both_passed()) return change;
  change.delta = after.step_rate() / before.step_rate() - 1;
  // In files that octet writes, rate and time agree. If one was edited, the worse counts.
  if (!std::isnan(before.time_ms)) {
    change.delta = std::min(change.delta, before.time_ms / after.time_ms - 1);
  }
  for (std::size_t i = 0; i < before.rates.size(); ++i) {
    change.deltas.push_back(after.rates[i] / before.rates[i] - 1);
  }
  change.deltas.back() = change.delta;
  change.noise = (before.spread + after.spread) / 2;
  return change;
}

void add_settings(ResultComparison& comparison, const std::vector<SettingChange>& changes) {
  std::vector<ComparedSetting>& settings = comparison.settings;
  for (const SettingChange& change : changes) {
    auto same = std::find_if(settings.begin(), settings.end(), [&](const ComparedSetting& setting) {
      return setting.change.name == change.name;
    });
    if (same == settings.end()) same = settings.insert(settings.end(), {change});
    ++same->cases;
    if (change.before != same->change.before || change.after != same->change.after) {
      ++same->other_cases;
    }
    same->decides |= change.decides;
  }
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

// "a.csv, b.csv, c.csv and 17 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  const auto shown = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost));
  const std::string list = fmt::format("{}", fmt::join(names.begin(), shown, ", "));
  return names.size() <= kMost ? list : fmt::format("{} and {} more", list, names.size() - kMost);
}

template <class Wanted>
std::vector<Change> changes_that(const std::vector<Change>& changes, Wanted wanted) {
  std::vector<Change> some;
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(some), wanted);
  return some;
}

}  // namespace

bool ResultComparison::can_be_judged() const {
  return std::none_of(settings.begin(), settings.end(),
                      [](const ComparedSetting& setting) { return setting.decides; });
}

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

ResultComparison compare_rows(const ParsedResults& before, const ParsedResults& after,
                              const std::vector<RowPair>& pairs) {
  ResultComparison comparison;
  for (const RowPair& pair : pairs) {
    comparison.changes.push_back(change_of(before.rows[pair.before], after.rows[pair.after]));
    add_settings(comparison, setting_changes(before.record(pair.before), after.record(pair.after)));
  }
  std::stable_sort(comparison.changes.begin(), comparison.changes.end(),
                   [](const Change& a, const Change& b) { return a.delta < b.delta; });
  std::stable_sort(
      comparison.settings.begin(), comparison.settings.end(),
      [](const ComparedSetting& a, const ComparedSetting& b) { return a.decides && !b.decides; });
  score(comparison);
  return comparison;
}

std::vector<ComparedResults> compare_results(const ParsedResults& before,
                                             const ParsedResults& after, bool any_device) {
  check_comparable(before, after, any_device);
  const auto [old_rows, new_rows] = keyed_rows(before, after);
  std::map<std::string, PairedGroup> groups;
  bool have_pairs = false;
  for (const auto& [key, place] : old_rows) {
    PairedGroup& group = groups[before.rows[place].random_group()];
    const auto found = new_rows.find(key);
    if (found == new_rows.end()) {
      group.only_old.push_back(key);
    } else {
      group.pairs.push_back({place, found->second});
      have_pairs = true;
    }
  }
  if (!have_pairs) {
    refuse_usage("{} and {} have no case in common; the first of each: {}; {}", before.source,
                 after.source, before.rows.empty() ? "none" : before.rows[0].key,
                 after.rows.empty() ? "none" : after.rows[0].key);
  }
  for (const auto& [key, place] : new_rows) {
    if (old_rows.count(key) == 0) groups[after.rows[place].random_group()].only_new.push_back(key);
  }
  std::vector<ComparedResults> compared;
  for (auto& [name, group] : groups) {
    ResultComparison comparison = compare_rows(before, after, group.pairs);
    comparison.only_old = std::move(group.only_old);
    comparison.only_new = std::move(group.only_new);
    compared.push_back({&before, &after, std::move(comparison), name});
  }
  return compared;
}

ComparedFolders compare_results(const ResultFolder& before, const ResultFolder& after,
                                bool any_device) {
  ComparedFolders compared;
  if (before.is_one_file && after.is_one_file) {
    compared.pairs = compare_results(before.results.front(), after.results.front(), any_device);
    return compared;
  }
  for (std::size_t i = 0; i < before.results.size(); ++i) {
    const ParsedResults* other = after.find(before.names[i]);
    if (other == nullptr) {
      compared.unpaired.push_back(before.results[i].source);
    } else {
      for (ComparedResults& pair : compare_results(before.results[i], *other, any_device)) {
        compared.pairs.push_back(std::move(pair));
      }
    }
  }
  for (std::size_t i = 0; i < after.results.size(); ++i) {
    if (before.find(after.names[i]) == nullptr)
      compared.unpaired.push_back(after.results[i].source);
  }
  if (compared.pairs.empty()) {
    refuse_usage(
        "no file of the old results ({}) has the name of one of the new ({}): wanted two runs of "
        "the same files",
        some_of(before.names), some_of(after.names));
  }
  return compared;
}

}  // namespace octet::tool
