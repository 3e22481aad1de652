// A comparison of two runs, printed for people.
#pragma once

#include "tool/reporting/result_comparison.hpp"

#include <string>

namespace octet::tool {

// How a comparison is judged and printed.
struct JudgeOptions {
  double threshold = kThresholdPercent / 100;  // the largest loss of a case that is no regression
  bool any_settings = false;                   // judge runs with other settings too
  bool wide = false;                           // cut no table
};

enum class Verdict { same, moved, regression, none };

// `same`: no case moved by more than 1 % and its noise, none is new, gone or has another Check.
// `none`: the settings differ in a way that makes the difference meaningless.
Verdict verdict_of(const ResultComparison& comparison, const JudgeOptions& options);

// Why a comparison is a regression or has no verdict: "the score fell, 2 slower by more than 5 %",
// "threads 2, now 1". Empty for the others.
std::string reason_of(const ResultComparison& comparison, const JudgeOptions& options);

// The score of both runs in a unit that fits them: "97.6", "98.1 GFLOPS", "+0.51 %". "-" if no case
// is PASS in both.
struct ScoreTexts {
  std::string before;
  std::string after;
  std::string change;
};
ScoreTexts scores_of(const ComparedResults& pair);

// Prints which settings differ, the score, how each rate changed over the cases, a line per model
// and the cases that moved most.
void print_differences(const ComparedResults& pair, const JudgeOptions& options);

// The same under the names of the files, and the cases whose Check changed or that only one run has.
void print_comparison(const ComparedResults& pair, const JudgeOptions& options);

}  // namespace octet::tool
