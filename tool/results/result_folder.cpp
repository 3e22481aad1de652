#include "tool/results/result_folder.hpp"

#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

std::set<fs::path> files_below(const fs::path& folder) {
  std::set<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    refuse_usage("{}: {}", error.path1().string(), error.code().message());
  }
  return files;
}

}  // namespace

const ResultTable* ResultFolder::find(const std::string& name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &tables[static_cast<std::size_t>(found - names.begin())];
}

ResultFolder read_results_folder(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) refuse_usage("{}: there is no such folder", path);
  if (!fs::is_directory(path, ignored)) {
    refuse_usage("{}: is no folder, wanted a folder with CSVs of octet bench", path);
  }
  ResultFolder folder;
  for (const fs::path& file : files_below(path)) {
    const std::string name = file.lexically_relative(path).string();
    if (file.extension() != ".csv") {
      folder.skipped.push_back(name + ": no CSV");
    } else if (auto table = read_results_file(file.string()); !table) {
      folder.skipped.push_back(name + ": its columns are not those of octet bench");
    } else if (table->rows.empty()) {
      folder.skipped.push_back(name + ": has no rows");
    } else {
      folder.tables.push_back(std::move(*table));
      folder.names.push_back(name);
    }
  }
  if (folder.tables.empty()) {
    refuse_usage("{}: has no results: wanted CSVs of octet bench{}{}", path,
                 folder.skipped.empty() ? "" : "; skipped ", fmt::join(folder.skipped, "; "));
  }
  return folder;
}

void print_skipped(const ResultFolder& folder) {
  for (const std::string& line : folder.skipped) fmt::print(stderr, "skipped {}\n", line);
}

}  // namespace octet::tool
