#include "tool/results/stored_results.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/files.hpp"
#include "tool/results/result_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace octet::tool {
namespace {

// The first columns of every operator's results.
constexpr std::string_view kFirstColumns = "TestID,Platform,GPU,";

// Equal for two rows of the same case, however they were run: also with another tuning table, since with
// OCTET_AUTO_TUNE=1 a suite does not know ahead which table the rows of its processes will have.
std::string problem_key(const std::string& name, const std::string& command) {
  return name + " " + repeated_command(without_tuning_table(command));
}

// Numbers first, in numeric order, then everything else.
std::pair<std::int64_t, std::string> order_of(const std::string& test_id) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  std::int64_t number = kLast;
  if (!parse_whole(test_id, 0, kLast, number)) number = kLast;
  return {number, test_id};
}

}  // namespace

StoredResults read_stored(const std::string& path) {
  std::string text = text_if_any(path);
  text.erase(text.rfind('\n') + 1);  // npos + 1 is 0
  StoredResults results;
  try {
    results.rows = parse_csv(text, path);
  } catch (const UsageError&) {
    return {};
  }
  if (results.rows.empty()) return {};
  results.header = results.rows[0];
  results.rows.erase(results.rows.begin());
  std::erase_if(results.rows,
                [&](const bench::Row& row) { return row.size() != results.header.size(); });
  return results;
}

int write_stored(const std::string& path, const StoredResults& results) {
  return bench::replace_file(path, path + ".new", bench::csv_text(results.header, results.rows));
}

void require_results_or_nothing(const std::string& option, const std::string& path) {
  const std::string beginning = beginning_to_replace(option, path, kFirstColumns.size());
  if (!beginning.empty() && beginning != kFirstColumns) {
    refuse_to_replace(option, path, "results of octet");
  }
}

ReplacedTable::ReplacedTable(const std::string& path, bench::Row header, const std::string& what)
    : path_(path), header_(std::move(header)) {
  if (path.empty()) return;
  const std::string first = bench::csv_line(header_);
  const std::string before = beginning_to_replace("-o", path, first.size());
  if (!before.empty() && before != first) refuse_to_replace("-o", path, what);
  const std::string target = bench::link_target(path);
  if (target.empty() || !std::ofstream(target + ".new")) {
    refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", path,
                 std::strerror(target.empty() ? ELOOP : errno));
  }
  std::remove((target + ".new").c_str());
}

void ReplacedTable::write(const std::vector<bench::Row>& rows) const {
  if (path_.empty()) return;
  const int reason = write_stored(path_, {header_, rows});
  if (reason != 0) refuse_usage("-o {}: {}", path_, std::strerror(reason));
}

void require_rows_that_fit(const std::string& path, const bench::Row& header,
                           const std::string& op) {
  constexpr std::string_view kWayOut = "give another file, or --fresh to replace it";
  const std::string text = text_if_any(path);
  const std::vector<bench::Row> rows = parse_csv(text, "-o " + path);
  if (rows.empty()) return;
  if (rows[0] != header) {
    refuse_usage("-o {}: has results with other columns, as of another operator or baseline; {}",
                 path, kWayOut);
  }
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != header.size()) {
      refuse_usage("-o {}: row {} has {} fields, wanted the {} of the header; mend it, {}", path,
                   r + 1, rows[r].size(), header.size(), kWayOut);
    }
    const std::string other = bench::Record(header, rows[r]).at(kOperatorColumn);
    if (other != op) {
      refuse_usage("-o {}: has results of {}, this run has those of {}; {}", path, other, op,
                   kWayOut);
    }
  }
  if (text.back() != '\n') {
    refuse_usage("-o {}: row {} does not end with a line end: was it cut short? Mend it, {}", path,
                 rows.size(), kWayOut);
  }
}

CaseKey key_of(const bench::Row& header, const bench::Row& row) {
  const bench::Record record(header, row);
  return {record.at("TestID"), problem_key(record.at("Case"), record.at("Command"))};
}

StoredResults newest_rows(const std::vector<std::string>& paths) {
  StoredResults all;
  std::map<CaseKey, std::size_t> places;
  for (const std::string& path : paths) {
    const StoredResults part = read_stored(path);
    if (all.header.empty()) all.header = part.header;
    if (part.header != all.header) continue;
    for (const bench::Row& row : part.rows) {
      const auto [place, is_new] = places.try_emplace(key_of(all.header, row), all.rows.size());
      if (is_new) all.rows.emplace_back();
      all.rows[place->second] = row;
    }
  }
  return all;
}

StoredResults merge_stored(const std::vector<std::string>& paths) {
  StoredResults all = newest_rows(paths);
  std::stable_sort(all.rows.begin(), all.rows.end(), [&](const bench::Row& a, const bench::Row& b) {
    return order_of(bench::Record(all.header, a).at("TestID")) <
           order_of(bench::Record(all.header, b).at("TestID"));
  });
  return all;
}

StoredResults rows_of(const StoredResults& results, const std::vector<BenchCase>& cases) {
  const bool named =
      std::find(results.header.begin(), results.header.end(), "Case") != results.header.end();
  std::set<CaseKey> keys;
  for (const BenchCase& one : cases) {
    keys.insert({one.test_id, problem_key(named ? one.name : "", one.command)});
  }
  StoredResults some = results;
  std::erase_if(some.rows,
                [&](const bench::Row& row) { return keys.count(key_of(some.header, row)) == 0; });
  return some;
}

std::string Checks::text() const {
  return fmt::format("{} PASS, {} FAIL, {} ERROR", passed, failed, errors);
}

Checks count_checks(const StoredResults& results) {
  Checks checks;
  for (const bench::Row& row : results.rows)
    checks.count(bench::Record(results.header, row).at("Check"));
  return checks;
}

}  // namespace octet::tool
