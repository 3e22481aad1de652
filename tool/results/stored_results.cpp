#include "tool/results/stored_results.hpp"

#include "tool/cases/cases.hpp"
#include "tool/results/row_meaning.hpp"
#include "tool/results/text_file.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <utility>

namespace octet::tool {
namespace {

// Numbers in their order, then everything else.
std::pair<std::int64_t, std::string> order_of(const std::string& test_id) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t number = kMost;
  if (!parse_whole(test_id, 0, kMost, number)) number = kMost;
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
                [&](const CsvRow& row) { return row.size() != results.header.size(); });
  return results;
}

bool write_stored(const std::string& path, const StoredResults& results) {
  const std::string beside = path + ".new";
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) return false;
  bool written = write_csv_row(file, results.header);
  for (const CsvRow& row : results.rows) written = written && write_csv_row(file, row);
  written = std::fclose(file) == 0 && written;
  if (written && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  std::remove(beside.c_str());
  errno = reason;
  return false;
}

CaseKey key_of(const CsvRow& header, const CsvRow& row) {
  const Record record(header, row);
  return {record.at("TestID"), case_of(record)};
}

StoredResults newest_rows(const std::vector<std::string>& paths) {
  StoredResults all;
  std::map<CaseKey, std::size_t> places;
  for (const std::string& path : paths) {
    const StoredResults part = read_stored(path);
    if (all.header.empty()) all.header = part.header;
    if (part.header != all.header) continue;
    for (const CsvRow& row : part.rows) {
      const auto [place, is_new] = places.try_emplace(key_of(all.header, row), all.rows.size());
      if (is_new) all.rows.emplace_back();
      all.rows[place->second] = row;
    }
  }
  return all;
}

StoredResults merge_stored(const std::vector<std::string>& paths) {
  StoredResults all = newest_rows(paths);
  std::stable_sort(all.rows.begin(), all.rows.end(), [&](const CsvRow& a, const CsvRow& b) {
    return order_of(Record(all.header, a).at("TestID")) <
           order_of(Record(all.header, b).at("TestID"));
  });
  return all;
}

std::string Checks::text() const {
  return fmt::format("{} PASS, {} FAIL, {} ERROR", passed, failed, errors);
}

Checks count_checks(const StoredResults& results) {
  Checks checks;
  for (const CsvRow& row : results.rows) checks.count(Record(results.header, row).at("Check"));
  return checks;
}

}  // namespace octet::tool
