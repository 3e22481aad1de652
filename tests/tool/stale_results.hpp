// Finds published results that were measured with other kernels than those of the tree.
#pragma once

#include "tool/options/usage_error.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/csv.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <compare>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace octet::tool {

namespace fs = std::filesystem;

// The hash of an operator's device sources, by the operator's name on the command line.
using TreeHash = std::function<std::string(const std::string& op)>;

// The files results/<gpu>/*.csv, sorted.
inline std::set<fs::path> result_files(const fs::path& folder) {
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

// Operator and hash that rows of a file were measured with.
struct Measured {
  std::string op;
  std::string hash;

  friend auto operator<=>(const Measured&, const Measured&) = default;
};

inline std::set<Measured> measured_in(const fs::path& path) {
  const std::vector<bench::Row> rows = parse_csv(text_if_any(path.string()), path.string());
  std::set<Measured> measured;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bench::Record record(rows[0], rows[r]);
    const std::string hash = record.at("Device Sources");
    if (!hash.empty()) measured.insert({operator_of(record.at("Command")), hash});
  }
  return measured;
}

// One line per file of results/<gpu>/*.csv, operator and hash of device sources that differs from
// the tree's:
//   STALE: results/h200/dense84.csv was measured with device sources X, the tree has Y of gemm
// and one line per file that is no CSV. Rows without a hash, such as those of other programs, are
// skipped. Empty if the folder is missing.
inline std::vector<std::string> stale_results(const std::string& folder, const TreeHash& tree) {
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
