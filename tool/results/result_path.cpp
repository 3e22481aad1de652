#include "tool/results/result_path.hpp"

#include "tool/results/result_kind.hpp"
#include "tool/results/text_file.hpp"
#include "tool/options/usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace octet::tool {
namespace {

// What the results of every operator begin with.
constexpr std::string_view kFirstColumns = "TestID,Platform,GPU,";

}  // namespace

std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    refuse_usage("{} {}: is a folder, wanted a file to write", option, path);
  }
  if (!std::filesystem::exists(path, ignored)) return {};
  // A device or a pipe would be replaced by the file that takes its name.
  if (!std::filesystem::is_regular_file(path, ignored)) {
    refuse_usage("{} {}: is no plain file, wanted a file to write", option, path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{} {}: {}", option, path, std::strerror(errno));
  std::string beginning(bytes, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(bytes));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return beginning;
}

void refuse_to_replace(const std::string& option, const std::string& path,
                       const std::string& wanted) {
  refuse_usage("{} {}: has something else than {} and is not replaced; give another file", option,
               path, wanted);
}

void require_results_or_nothing(const std::string& option, const std::string& path) {
  const std::string beginning = beginning_to_replace(option, path, kFirstColumns.size());
  if (!beginning.empty() && beginning != kFirstColumns) {
    refuse_to_replace(option, path, "results of octet");
  }
}

void require_rows_that_fit(const std::string& path, const CsvRow& header, const std::string& op) {
  constexpr std::string_view kWayOut = "give another file, or --fresh to replace it";
  const std::string text = text_if_any(path);
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
