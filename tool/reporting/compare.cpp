// octet compare: the differences between two runs of the same cases. Exit status 1 if the second is
// worse, 2 if their settings differ so that they cannot be judged.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/comparison_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace octet::tool {
namespace {

struct CompareOptions {
  std::string before;
  std::string after;
  std::optional<double> threshold_percent;
  bool any_device = false;
  JudgeOptions judge{};
};

constexpr std::string_view kJudgeAnyway = "--any-settings judges anyway";

int status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::regression: return kExitFailed;
    case Verdict::none: return kExitUsage;
    default: return 0;
  }
}

int compare_files(const ComparedResults& pair, const JudgeOptions& options) {
  print_comparison(pair, options);
  const Verdict verdict = verdict_of(pair.comparison, options);
  const std::string reason = reason_of(pair.comparison, options);
  switch (verdict) {
    case Verdict::regression: fmt::print("REGRESSION: {}\n", reason); break;
    case Verdict::none:
      fmt::print("no verdict, the settings differ: {}; {}\n", reason, kJudgeAnyway);
      break;
    default: fmt::print("no regression\n");
  }
  return status_of(verdict);
}

// "REGRESSION", as the table of a folder has it.
const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::regression: return "REGRESSION";
    case Verdict::none: return "no verdict";
    case Verdict::moved: return "moved";
    default: return "same";
  }
}

std::string number_of(const ResultComparison& comparison, bool (*counts)(const Change& change)) {
  return std::to_string(
      std::count_if(comparison.changes.begin(), comparison.changes.end(), counts));
}

// A line per file, also for those that only one folder has.
void print_files(const ResultFolder& before, const ResultFolder& after,
                 const ComparedFolders& compared, const JudgeOptions& options) {
  std::vector<bench::Row> table{
      {"file", "result", "cases", "old score", "new", "change", "slower", "faster", "checks"}};
  const auto name_in = [](const ResultFolder& folder, const ParsedResults* results) {
    return folder.names[static_cast<std::size_t>(results - folder.results.data())];
  };
  for (const ComparedResults& pair : compared.pairs) {
    const ResultComparison& comparison = pair.comparison;
    const ScoreTexts score = scores_of(pair);
    table.push_back(
        {name_in(before, pair.before), word_of(verdict_of(comparison, options)),
         std::to_string(comparison.changes.size()), score.before, score.after, score.change,
         number_of(comparison,
                   [](const Change& one) { return one.beyond_noise() && one.delta < 0; }),
         number_of(comparison,
                   [](const Change& one) { return one.beyond_noise() && one.delta > 0; }),
         number_of(comparison,
                   [](const Change& one) { return one.before.check != one.after.check; })});
  }
  const auto add_unpaired = [&](const ResultFolder& in, const ResultFolder& other,
                                const char* where) {
    for (std::size_t i = 0; i < in.names.size(); ++i) {
      if (other.find(in.names[i]) != nullptr) continue;
      bench::Row row{in.names[i], where};
      row.resize(table.front().size(), "-");
      table.push_back(std::move(row));
    }
  };
  add_unpaired(before, after, "only in the old");
  add_unpaired(after, before, "only in the new");
  print_table(table, 2, options.wide);
  fmt::print("slower, faster: cases beyond their noise; checks: cases with another Check\n");
}

// "a.csv (threads 2, now 1); b.csv (...)" for the files with this verdict; empty if there are none.
std::string files_with(Verdict verdict, const ComparedFolders& compared,
                       const JudgeOptions& options) {
  std::vector<std::string> files;
  for (const ComparedResults& pair : compared.pairs) {
    if (verdict_of(pair.comparison, options) != verdict) continue;
    files.push_back(
        fmt::format("{} ({})", printable(pair.after->source), reason_of(pair.comparison, options)));
  }
  return fmt::format("{}", fmt::join(files, "; "));
}

// A regression counts even if other files have no verdict.
int print_verdict(const ComparedFolders& compared, const JudgeOptions& options) {
  const std::string worse = files_with(Verdict::regression, compared, options);
  const std::string unjudged = files_with(Verdict::none, compared, options);
  if (!unjudged.empty()) {
    fmt::print("no verdict, the settings differ: {}; {}\n", unjudged, kJudgeAnyway);
  }
  if (!worse.empty()) {
    fmt::print("REGRESSION: {}\n", worse);
    return status_of(Verdict::regression);
  }
  if (!unjudged.empty()) return status_of(Verdict::none);
  fmt::print("no regression in {}\n", counted(compared.pairs.size(), "file"));
  return 0;
}

int compare_folders(const ResultFolder& before, const ResultFolder& after,
                    const ComparedFolders& compared, const JudgeOptions& options) {
  print_files(before, after, compared, options);
  for (const ComparedResults& pair : compared.pairs) {
    if (verdict_of(pair.comparison, options) == Verdict::same) continue;
    fmt::print("\n");
    print_comparison(pair, options);
  }
  print_skipped(before);
  print_skipped(after);
  fmt::print("\n");
  return print_verdict(compared, options);
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
  const ResultFolder before = read_results_folder(options.before);
  const ResultFolder after = read_results_folder(options.after);
  JudgeOptions judge = options.judge;
  if (options.threshold_percent) judge.threshold = *options.threshold_percent / 100;
  const ComparedFolders compared = compare_results(before, after, options.any_device);
  return old_folder ? compare_folders(before, after, compared, judge)
                    : compare_files(compared.pairs.front(), judge);
}

}  // namespace

void add_compare(CLI::App& octet, Chosen& chosen) {
  CLI::App& app =
      add_command(octet, "compare",
                  "Compare two runs of the same cases; exit status 1 if the second is worse, 2 if "
                  "their settings differ.");
  const auto options = std::make_shared<CompareOptions>();
  add_argument(app, "OLD", options->before, "A CSV of results, or a folder of them.");
  add_argument(app, "NEW", options->after, "The results to compare with OLD.");
  add_real(app, "--threshold", options->threshold_percent,
           with_default("Slowdown of one case, in percent, that counts as a regression.",
                        fmt::format("{}", kThresholdPercent)));
  add_flag(app, "--any-device", options->any_device, "Compare results of different devices too.");
  add_flag(app, "--any-settings", options->judge.any_settings,
           "Judge runs with other threads, backends, clock modes or options too.");
  add_flag(app, "--wide", options->judge.wide,
           "Show every column in full, however wide the table gets.");
  add_examples(app, {"octet compare before.csv after.csv",
                     "octet compare results/h200 out --threshold 3 --any-settings"});
  choose_when_given(app, chosen, [options] { return compare(*options); });
}

}  // namespace octet::tool
