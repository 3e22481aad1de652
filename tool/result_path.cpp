#include "result_path.hpp"

#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace octet::tool {
namespace {

// What the results of every operator begin with.
constexpr std::string_view kFirstColumns = "TestID,Platform,GPU,";

}  // namespace

void require_results_or_nothing(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    refuse_usage("{} {}: is a folder, wanted a file to write", option, path);
  }
  if (!std::filesystem::exists(path, ignored)) return;
  // A device or a pipe would be replaced by the file that takes its name.
  if (!std::filesystem::is_regular_file(path, ignored)) {
    refuse_usage("{} {}: is no plain file, wanted a file to write", option, path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{} {}: {}", option, path, std::strerror(errno));
  std::string beginning(kFirstColumns.size(), '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (file.gcount() != 0 && beginning != kFirstColumns) {
    refuse_usage(
        "{} {}: has something else than results of octet and is not replaced; give "
        "another file",
        option, path);
  }
}

CsvRow columns_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  const std::vector<CsvRow> rows = parse_csv(line, path);
  return rows.empty() ? CsvRow() : rows[0];
}

}  // namespace octet::tool
