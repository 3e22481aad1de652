// Compares two measurements of the same cases: which moved by more than the noise.
//
// A row's noise is the mean of the two spreads; beyond it the quartile ranges of the two runs do
// not overlap. Clocks and temperature move all rows alike and do not average out, so the noise of
// the score is that of the median row.
#pragma once

#include "tool/results/parsed_results.hpp"
#include "tool/results/settings.hpp"

#include <string>
#include <vector>

namespace octet::tool {

// The largest loss of one case that is not a regression.
inline constexpr double kThresholdPercent = 5;

struct Change {
  ParsedRow before;
  ParsedRow after;
  double delta = 0;  // of the step's rate: -0.07 is 7 % slower; 0 unless both are PASS
  double noise = 0;
  std::vector<double> deltas{};  // of every rate, the step's last; empty unless both are PASS

  bool both_passed() const { return before.passed() && after.passed(); }
  bool beyond_noise() const { return delta > noise || delta < -noise; }
  bool broke() const { return before.passed() && !after.passed(); }
};

// A setting in which cases of two runs differ.
struct ComparedSetting {
  SettingChange change;         // of the first such case
  std::size_t cases = 0;        // that differ in it
  std::size_t other_cases = 0;  // of those, the ones with other values than the first

  bool decides = false;  // in any case
};

struct ResultComparison {
  std::vector<Change> changes;        // sorted by delta, the worst first
  std::vector<std::string> only_old;  // labels
  std::vector<std::string> only_new;
  double score_before = 0;  // geometric means over the rows that are PASS in both
  double score_after = 0;
  double score_noise = 0;
  std::vector<ComparedSetting> settings{};  // those that differ, the ones that decide first

  // Whether a difference says something about the code: no setting that decides differs.
  bool can_be_judged() const;
  std::vector<Change> timed() const;  // PASS in both
  // Cases slower by more than `threshold` and the noise.
  std::vector<Change> lost(double threshold) const;
  std::vector<Change> broken() const;
  double score_delta() const { return score_after / score_before - 1; }
  bool score_fell() const { return score_delta() < -score_noise; }
  bool is_regression(double threshold) const;
};

struct Quartiles {
  double low, middle, high;
};
Quartiles quartiles(std::vector<double> values);  // needs at least one value

// Throws UsageError if the results are of different kinds, or of different devices unless
// `any_device`.
void check_comparable(const ParsedResults& before, const ParsedResults& after, bool any_device);

// The places of two rows in their files.
struct RowPair {
  std::size_t before;
  std::size_t after;
};

// Compares the rows of each pair; at least one pair.
ResultComparison compare_rows(const ParsedResults& before, const ParsedResults& after,
                              const std::vector<RowPair>& pairs);

struct ComparedResults {
  const ParsedResults* before;
  const ParsedResults* after;
  ResultComparison comparison;
  std::string random_group{};  // whose rows alone are compared; empty: those of no group

  // "new.csv", "new.csv, random M<=256": `file` with the group.
  std::string named(const std::string& file) const {
    return random_group.empty() ? file : file + ", " + random_group;
  }
};

// One comparison of the rows of no random group and one per such group, as far as there are any.
// Rows are one case if shape, name and problem agree. If no two rows do, those of one shape and name
// are compared, and the options are among the settings that differ. Throws UsageError if the
// results are of different kinds or devices (unless any_device), or have no case in common.
std::vector<ComparedResults> compare_results(const ParsedResults& before,
                                             const ParsedResults& after, bool any_device);

struct ComparedFolders {
  std::vector<ComparedResults> pairs;  // files with the same name, each by its groups
  std::vector<std::string> unpaired;   // paths of files in only one folder
};

// Two single files are compared whatever their names. Throws UsageError if no two files have the
// same name, or two that do cannot be compared.
ComparedFolders compare_results(const ResultFolder& before, const ResultFolder& after,
                                bool any_device);

}  // namespace octet::tool
