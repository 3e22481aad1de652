#include "tool/bench/run_plan.hpp"

#include "tool/console.hpp"
#include "tool/history/history.hpp"
#include "tool/results/json_rows.hpp"
#include "tool/results/stored_results.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

// What was kept and what is left, where there is anything to say.
void print_rest(std::size_t kept, std::size_t not_begun, const ResultFile& file,
                const TimingOptions& options) {
  const std::size_t total = file.rows().size();
  if (kept > 0) {
    fmt::print("{} of {} cases were in {} already (--fresh measures them again)\n", kept, total,
               options.output);
  }
  if (file.others() > 0) {
    fmt::print("{} rows of other cases stay in {} (--fresh drops them)\n", file.others(),
               options.output);
  }
  if (not_begun > 0) {
    fmt::print("{} of {} cases not started (--max-seconds reached){}\n", not_begun, total,
               options.output.empty() ? "" : "; rerun the same command to continue");
  }
}

}  // namespace

void run_cases(ResultFile& file, const ResultKind& kind, const TimingOptions& options,
               const RunClock& clock, const std::function<std::string(std::size_t)>& name,
               const std::function<bench::Row(std::size_t)>& run) {
  std::size_t kept = 0;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < file.rows().size(); ++i) {
    if (file.rows()[i]) {
      ++kept;
    } else if (in_shard(options, i)) {
      wanted.push_back(i);
    }
  }
  JsonFile json(options.json);
  HistoryWriter history(kind, file.header());
  Progress progress(wanted.size());
  std::size_t done = 0;
  while (done < wanted.size() && !clock.is_over()) {
    progress.show(done, name(wanted[done]));
    const bench::Row row = run(wanted[done]);
    // The history first: a run that is killed in between measures the case again.
    if (const auto warning = history.add(row)) {
      progress.clear();
      fmt::print(stderr, "octet: {}\n", *warning);
    }
    file.add(wanted[done], row);
    ++done;
  }
  progress.clear();
  file.finish();
  json.write(kind, file.header(), file.rows());
  print_rest(kept, wanted.size() - done, file, options);
}

void print_failures(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows,
                    const char* name_column, const std::vector<std::string>& repeats) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i]) continue;
    const bench::Record record(header, *rows[i]);
    if (record.at("Check") == "PASS") continue;
    fmt::print("{} {}: {}\n  repeat with: {}\n", record.at("Check"), record.at(name_column),
               record.at("Note"), repeats[i]);
  }
}

int print_counts(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows) {
  Checks checks;
  for (const auto& row : rows) {
    if (row) checks.count(bench::Record(header, *row).at("Check"));
  }
  fmt::print("{}\n", checks.text());
  return checks.all_passed() ? 0 : kExitFailed;
}

}  // namespace octet::tool
