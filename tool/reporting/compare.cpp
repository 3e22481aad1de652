// octet compare: the differences between two runs of the same cases. Exit status 1 if the second is
// worse, 2 if their settings differ so that they cannot be judged. With --across, what an option
// costs or gains, layer by layer; that is shown, not judged.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/across.hpp"
#include "tool/reporting/comparison_text.hpp"
#include "tool/reporting/paired_ratios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace octet::tool {
namespace {

struct CompareOptions {
  std::string before;
  std::string after;
  std::string across;
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

int compare_group(const ComparedResults& pair, const JudgeOptions& options) {
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
        {pair.named(name_in(before, pair.before)), word_of(verdict_of(comparison, options)),
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
    files.push_back(fmt::format("{} ({})", printable(pair.named(pair.after->source)),
                                reason_of(pair.comparison, options)));
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
  std::set<const ParsedResults*> files;
  for (const ComparedResults& pair : compared.pairs) files.insert(pair.after);
  fmt::print("no regression in {}\n", counted(files.size(), "file"));
  return 0;
}

int compare_files(const ComparedFolders& compared, const JudgeOptions& options) {
  if (compared.pairs.size() == 1) return compare_group(compared.pairs.front(), options);
  for (const ComparedResults& pair : compared.pairs) {
    print_comparison(pair, options);
    fmt::print("\n");
  }
  return print_verdict(compared, options);
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

std::string decibels(double snr) { return std::isnan(snr) ? "-" : fmt::format("{:.1f}", snr); }

void print_errors(const AcrossPairing& pairing, bool wide) {
  if (pairing.errors.empty()) return;
  std::vector<bench::Row> table{{"error, median over the cases", pairing.before, pairing.after}};
  for (const ErrorChange& error : pairing.errors) {
    table.push_back({error.column, decibels(error.before), decibels(error.after)});
  }
  print_table(table, 1, wide);
}

// Rows that pair with none, the first few by name.
void print_unpaired(const std::vector<std::string>& keys) {
  constexpr std::size_t kMost = 3;
  if (keys.empty()) return;
  fmt::print("\nwithout a partner: {}", counted(keys.size(), "row"));
  for (std::size_t i = 0; i < std::min(keys.size(), kMost); ++i) {
    fmt::print("{} {}", i == 0 ? ":" : ",", printable(keys[i]));
  }
  fmt::print("{}\n", keys.size() > kMost ? ", ..." : "");
}

ParsedResults read_one_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    refuse_usage("--across pairs the rows of CSVs, {} is a folder; give one or two of its files",
                 path);
  }
  return std::move(read_results_folder(path).results.front());
}

int compare_across(const CompareOptions& options) {
  if (options.threshold_percent || options.judge.any_settings) {
    refuse_usage("--threshold and --any-settings judge a change of the code; --across judges none");
  }
  const ParsedResults before = read_one_file(options.before);
  std::optional<ParsedResults> second;
  if (!options.after.empty()) second = read_one_file(options.after);
  const ParsedResults& after = second ? *second : before;
  const Across across = pair_across(before, after, options.across, options.any_device);
  JudgeOptions shown = options.judge;
  shown.threshold = std::numeric_limits<double>::infinity();  // only the cases that moved most
  for (std::size_t i = 0; i < across.pairings.size(); ++i) {
    const AcrossPairing& pairing = across.pairings[i];
    if (i > 0) fmt::print("\n");
    const std::string apart = pairing.apart.empty() ? "" : fmt::format(" ({})", pairing.apart);
    fmt::print("{} {} -> {}{}: {}, {}\n", options.across, printable(pairing.before),
               printable(pairing.after), printable(apart),
               printable(pairing.rows.named(title_of_row(before, 0))),
               counted(pairing.rows.comparison.changes.size(), "pair"));
    print_differences(pairing.rows, shown);
    print_errors(pairing, shown.wide);
  }
  print_unpaired(across.unpaired);
  return 0;
}

int compare(const CompareOptions& options) {
  if (!options.across.empty()) return compare_across(options);
  if (options.after.empty()) {
    refuse_usage("NEW is required: The results to compare with OLD; without it, give --across");
  }
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
                    : compare_files(compared, judge);
}

}  // namespace

void add_compare(CLI::App& octet, Chosen& chosen) {
  CLI::App& app =
      add_command(octet, "compare",
                  "Compare two runs of the same cases; exit status 1 if the second is worse, 2 if "
                  "their settings differ. With --across, show what an option costs.");
  const auto options = std::make_shared<CompareOptions>();
  add_argument(app, "OLD", options->before, "A CSV of results, or a folder of them.");
  add_optional_argument(app, "NEW", options->after,
                        "The results to compare with OLD. With --across it may be left out.");
  add_choice(app, "--across", across_choices(),
             "Pair rows of one layer that differ in this option, in one CSV or two, and show what "
             "it costs or gains. Nothing is judged. [default: rows of the same case]",
             [options](const std::string& choice) { options->across = choice; });
  add_real(app, "--threshold", options->threshold_percent,
           with_default("Slowdown of one case, in percent, that counts as a regression.",
                        fmt::format("{}", kThresholdPercent)));
  add_flag(app, "--any-device", options->any_device, "Compare results of different devices too.");
  add_flag(app, "--any-settings", options->judge.any_settings,
           "Judge runs with other threads, backends, clock modes or options too.");
  add_flag(app, "--wide", options->judge.wide,
           "Show every column in full, however wide the table gets.");
  add_examples(app, {"octet compare before.csv after.csv",
                     "octet compare --across granularity blockwise.csv rowwise.csv"});
  choose_when_given(app, chosen, [options] { return compare(*options); });
}

}  // namespace octet::tool
