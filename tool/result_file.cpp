#include "result_file.hpp"

#include "core/message.hpp"
#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace octet::tool {

ResultFile::ResultFile(const std::string& path, const CsvRow& header)
    : path_(path), partial_(path + ".partial") {
  if (path.empty()) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    refuse_usage("-o {}: is a folder, wanted a file to write", path);
  }
  // A device or a pipe would be replaced by the file that takes its name.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    refuse_usage("-o {}: is no plain file, wanted a file to write", path);
  }
  file_ = std::fopen(partial_.c_str(), "w");
  if (file_ == nullptr) {
    refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", path,
                 std::strerror(errno));
  }
  if (!write_csv_row(file_, header) || std::fflush(file_) != 0) {
    const std::string reason = std::strerror(errno);
    std::fclose(file_);
    std::filesystem::remove(partial_, ignored);
    refuse_usage("-o {}: {}; wanted a file that can be written", path, reason);
  }
}

ResultFile::~ResultFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  if (!has_rows_) std::filesystem::remove(partial_, ignored);
}

void ResultFile::add(const CsvRow& row) {
  if (file_ == nullptr) return;
  if (!write_csv_row(file_, row) || std::fflush(file_) != 0) {
    fail(ErrorCode::device_error, partial_, ": ", std::strerror(errno));
  }
  has_rows_ = true;
}

void ResultFile::finish() {
  if (file_ == nullptr) return;
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!closed || std::rename(partial_.c_str(), path_.c_str()) != 0) {
    fail(ErrorCode::device_error, path_, ": ", std::strerror(errno), "; the rows are in ",
         partial_);
  }
}

}  // namespace octet::tool
