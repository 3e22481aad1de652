#include "result_path.hpp"

#include "result_kind.hpp"
#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

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

void require_rows_that_fit(const std::string& path, const CsvRow& header, const std::string& op) {
  constexpr std::string_view kWayOut = "give another file, or --fresh to replace it";
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string text = stream.str();
  const std::vector<CsvRow> rows = parse_csv(text, "-o " + path);
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
    const std::string other = Record(header, rows[r]).at(kOperatorColumn);
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

}  // namespace octet::tool
