// octet compare: what two runs of the same cases differ in. Exit status 1 where the second is worse.
#include "tool/commands.hpp"
#include "tool/reporting/comparison_text.hpp"
#include "tool/options/options.hpp"
#include "tool/results/result_folder.hpp"

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

  double threshold() const { return threshold_percent.value_or(kThresholdPercent) / 100; }
};

ResultTable read_one(const std::string& path) {
  auto table = read_results_file(path);
  if (!table) {
    refuse_usage("{}: its columns are not those of octet bench, wanted a CSV of results", path);
  }
  return *std::move(table);
}

int show(const ComparedTables& pair, const CompareOptions& options) {
  fmt::print("{} -> {}: {}, {} cases in both\n", pair.before->source, pair.after->source,
             pair.before->kind->op, pair.comparison.changes.size());
  print_comparison(pair.comparison, pair.before->kind->unit, options.threshold());
  return pair.comparison.is_regression(options.threshold()) ? kExitFailed : 0;
}

int compare_files(const CompareOptions& options) {
  const ResultTable before = read_one(options.before);
  const ResultTable after = read_one(options.after);
  return show({&before, &after, compare_results(before, after, options.any_device)}, options);
}

int compare_folders(const CompareOptions& options) {
  const ResultFolder before = read_results_folder(options.before);
  const ResultFolder after = read_results_folder(options.after);
  const ComparedFolders compared = compare_results(before, after, options.any_device);
  int status = 0;
  for (const ComparedTables& pair : compared.pairs) {
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
  CLI::App* app = octet.add_subcommand(
      "compare", "what two runs differ in; exit status 1 where the second is worse");
  const auto options = std::make_shared<CompareOptions>();
  add_argument(*app, "OLD", options->before, "a CSV of results, or a folder of them");
  add_argument(*app, "NEW", options->after, "what to compare with it");
  add_real(*app, "--threshold", options->threshold_percent,
           "the loss of one case, in percent, that is a regression; 5");
  add_flag(*app, "--any-device", options->any_device, "compare results of different devices too");
  choose_when_given(*app, chosen, [options] { return compare(*options); });
}

}  // namespace octet::tool
