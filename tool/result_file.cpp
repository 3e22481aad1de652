#include "result_file.hpp"

#include "record.hpp"
#include "result_path.hpp"
#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

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

std::vector<CsvRow> read_rows(const std::string& path, const CsvRow& header) {
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  std::string text = stream.str();
  text.erase(text.rfind('\n') + 1);  // npos + 1 is 0
  std::vector<CsvRow> rows;
  try {
    rows = parse_csv(text, path);
  } catch (const UsageError&) {
    return {};
  }
  if (rows.empty() || rows[0] != header) return {};
  rows.erase(rows.begin());
  std::erase_if(rows, [&](const CsvRow& row) { return row.size() != header.size(); });
  return rows;
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
    for (const CsvRow& row : read_rows(path, header_)) {
      if (Record(header_, row).at("Check") != "PASS") continue;
      for (std::size_t i = 0; i < planned.size(); ++i) {
        if (same_measurement(header_, row, planned[i])) rows_[i] = row;
      }
    }
  }
}

// Beside the file first, so that what was there is whole until the new one is.
bool ResultFile::write_all(const std::string& path) const {
  const std::string beside = path + ".new";
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) return false;
  bool written = write_csv_row(file, header_);
  for (const auto& row : rows_) written = written && (!row || write_csv_row(file, *row));
  written = std::fclose(file) == 0 && written;
  if (written && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  std::remove(beside.c_str());
  errno = reason;
  return false;
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
