#include "tool/results/stale_results.hpp"

#include "tool/results/csv.hpp"
#include "tool/results/record.hpp"
#include "tool/results/row_meaning.hpp"
#include "tool/results/text_file.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <compare>
#include <filesystem>
#include <set>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

// results/<gpu>/*.csv, in order.
std::set<fs::path> result_files(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator(folder, error)) {
    if (!gpu.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(gpu.path())) {
      if (file.path().extension() == ".csv") files.insert(file.path());
    }
  }
  return files;
}

struct Measured {
  std::string op;
  std::string hash;

  friend auto operator<=>(const Measured&, const Measured&) = default;
};

std::set<Measured> measured_in(const fs::path& path) {
  const std::vector<CsvRow> rows = parse_csv(text_if_any(path.string()), path.string());
  std::set<Measured> measured;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const Record record(rows[0], rows[r]);
    const std::string hash = record.at("Device Sources");
    if (!hash.empty()) measured.insert({operator_of(record), hash});
  }
  return measured;
}

}  // namespace

std::vector<std::string> stale_results(const std::string& folder, const TreeHash& tree) {
  std::vector<std::string> lines;
  for (const fs::path& path : result_files(folder)) {
    const std::string shown =
        (fs::path(folder).filename() / path.parent_path().filename() / path.filename()).string();
    try {
      for (const auto& [op, hash] : measured_in(path)) {
        const std::string now = tree(op);
        if (hash == now) continue;
        lines.push_back(
            fmt::format("STALE: {} was measured with device sources {}, the tree has {} of {}",
                        shown, hash, now.empty() ? "none" : now, op.empty() ? "no operator" : op));
      }
    } catch (const UsageError& error) {
      lines.push_back(fmt::format("UNREADABLE: {}: {}", shown, error.what()));
    }
  }
  return lines;
}

}  // namespace octet::tool
