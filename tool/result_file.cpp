#include "result_file.hpp"

#include "record.hpp"
#include "result_path.hpp"
#include "stored_results.hpp"
#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace octet::tool {
namespace {

// Results of another operator, or with other columns, cannot be taken up.
void require_same_columns(const std::string& path, const CsvRow& header) {
  const CsvRow columns = columns_of(path);
  if (columns.empty() || columns == header) return;
  refuse_usage(
      "-o {}: has results with other columns, as of another operator or baseline; give another "
      "file, or --fresh to replace it",
      path);
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
    : path_(path), partial_(path + ".partial"), header_(header), rows_(planned.size()) {
  if (path.empty()) return;
  for (const std::string& earlier : {path_, partial_}) {
    require_results_or_nothing("-o", earlier);
    if (!fresh) require_same_columns(earlier, header);
  }
  if (!fresh) take_up(planned);
  if (!write_all(partial_)) {
    refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", path,
                 std::strerror(errno));
  }
  file_ = std::fopen(partial_.c_str(), "a");
  if (file_ == nullptr) refuse_usage("-o {}: {}", path, std::strerror(errno));
}

ResultFile::~ResultFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  const bool any = std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return !!row; });
  if (!any) std::filesystem::remove(partial_, ignored);
}

void ResultFile::take_up(const std::vector<CsvRow>& planned) {
  for (const std::string& path : {path_, partial_}) {
    const StoredResults earlier = read_stored(path);
    if (earlier.header != header_) continue;
    for (const CsvRow& row : earlier.rows) {
      if (Record(header_, row).at("Check") != "PASS") continue;
      for (std::size_t i = 0; i < planned.size(); ++i) {
        if (same_measurement(header_, row, planned[i])) rows_[i] = row;
      }
    }
  }
}

bool ResultFile::write_all(const std::string& path) const {
  StoredResults results{header_, {}};
  for (const auto& row : rows_) {
    if (row) results.rows.push_back(*row);
  }
  return write_stored(path, results);
}

void ResultFile::add(std::size_t index, const CsvRow& row) {
  rows_[index] = row;
  if (file_ == nullptr) return;
  if (!write_csv_row(file_, row) || std::fflush(file_) != 0) {
    refuse_usage("-o {}: {}; the rows so far are in {}, and the same command goes on with them",
                 path_, std::strerror(errno), partial_);
  }
}

void ResultFile::finish() {
  if (file_ == nullptr) return;
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!closed || !write_all(path_)) {
    refuse_usage("-o {}: {}; the rows are in {}", path_, std::strerror(errno), partial_);
  }
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

}  // namespace octet::tool
