#include "tool/results/result_file.hpp"

#include "tool/results/record.hpp"
#include "tool/results/result_kind.hpp"
#include "tool/results/result_path.hpp"
#include "tool/results/stored_results.hpp"
#include "tool/options/usage_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace octet::tool {
namespace {

// Where it is in `planned`, one with the same TestID before others of the same problem.
std::optional<std::size_t> place_of(const CaseKey& key, const std::vector<CaseKey>& planned) {
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] == key) return i;
    if (planned[i].problem == key.problem && !place) place = i;
  }
  return place;
}

}  // namespace

bool same_measurement(const CsvRow& header, const CsvRow& a, const CsvRow& b) {
  const Record left(header, a);
  const Record right(header, b);
  std::vector<const char*> columns{"TestID",  "Platform",      "GPU",     "CPU",
                                   "Backend", "Configuration", "Threads", "Command"};
  columns.push_back(left.at("Platform") == "cuda" ? "Device Sources" : "Commit");
  return std::all_of(columns.begin(), columns.end(),
                     [&](const char* column) { return left.at(column) == right.at(column); });
}

ResultFile::ResultFile(const std::string& path, const CsvRow& header,
                       const std::vector<CsvRow>& planned, bool fresh)
    : path_(path), header_(header), rows_(planned.size()), earlier_(planned.size()) {
  if (path.empty()) return;
  require_results_or_nothing("-o", path);
  require_results_or_nothing("-o", path + ".partial");
  partial_.emplace(path);
  if (!fresh) take_up(planned);
  partial_->begin(header, fresh);
}

void ResultFile::take_up(const std::vector<CsvRow>& planned) {
  const std::vector<std::string> paths{path_, partial_->path()};
  const std::string op = planned.empty() ? "" : Record(header_, planned[0]).at(kOperatorColumn);
  for (const std::string& path : paths) require_rows_that_fit(path, header_, op);
  std::vector<CaseKey> cases;
  cases.reserve(planned.size());
  for (const CsvRow& row : planned) cases.push_back(key_of(header_, row));
  for (const CsvRow& row : newest_rows(paths).rows) {
    const CaseKey key = key_of(header_, row);
    const auto place = place_of(key, cases);
    (place ? earlier_[*place] : others_).push_back(row);
    if (Record(header_, row).at("Check") != "PASS") continue;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      if (cases[i] == key && same_measurement(header_, row, planned[i])) rows_[i] = row;
    }
  }
}

void ResultFile::add(std::size_t index, const CsvRow& row) {
  rows_[index] = row;
  if (partial_ && !partial_->add(row)) {
    refuse_usage("-o {}: {}; the rows so far are in {}, and the same command goes on with them",
                 path_, std::strerror(errno), partial_->path());
  }
}

void ResultFile::finish() {
  if (!partial_) return;
  StoredResults results{header_, others_};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<CsvRow> of_case = rows_[i] ? std::vector<CsvRow>{*rows_[i]} : earlier_[i];
    results.rows.insert(results.rows.end(), of_case.begin(), of_case.end());
  }
  if (!write_stored(path_, results)) {
    refuse_usage("-o {}: {}; the rows of this run are in {}", path_, std::strerror(errno),
                 partial_->path());
  }
  partial_->remove();
  partial_.reset();
}

}  // namespace octet::tool
