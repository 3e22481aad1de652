// Published results that were measured with other kernels or configurations than the tree has.
#pragma once

#include "planned_rows.hpp"

#include "tool/cases/random_layers.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <compare>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace octet::tool {

namespace fs = std::filesystem;

// What the tree has to set beside a row.
struct Tree {
  // The digest of the kernels of a command, by its digest_of().
  std::function<std::string(const std::string& name)> digest;
  // What would run a command on the GPU of a folder; nothing if that is not known. Throws if the
  // command cannot be planned.
  std::function<std::optional<PlannedRow>(const std::string& gpu, const std::string& command)> plan;
};

// results/<gpu>/*.csv, in order.
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

// What a file was measured with.
struct Measured {
  std::string op;
  std::string hash;

  friend auto operator<=>(const Measured&, const Measured&) = default;
};

// What a row of tools/peers.py was run for; all rows of a case have the digest of octet's kernels.
inline std::string peers_case(const bench::Record& record) {
  return record.at("Case") + "\n" + record.at("Command") + "\n" + record.at("Product");
}

// Rows of tools/peers.py have octet's configuration in the note of octet's row. Older ones have none, and layers drawn at
// random may have had any.
inline std::string digest_of_row(const bench::Record& record,
                                 const std::map<std::string, std::string>& notes) {
  std::string configuration = record.at("Configuration");
  if (const auto note = notes.find(peers_case(record)); note != notes.end()) {
    configuration += note->second;
  }
  const std::string op = digest_of(record.at("Command"), configuration);
  const bool is_random = !random_group(record.at("Case")).empty();
  return op == "gemm" && is_random && configuration.empty() ? kNarrowDigest : op;
}

// `rows`: a file, with its header first.
inline std::set<Measured> measured_in(const std::vector<bench::Row>& rows) {
  std::map<std::string, std::string> notes;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bench::Record record(rows[0], rows[r]);
    if (record.at("Library") == "octet") notes[peers_case(record)] = record.at("Note");
  }
  std::set<Measured> measured;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bench::Record record(rows[0], rows[r]);
    const std::string hash = record.at("Device Sources");
    if (!hash.empty()) measured.insert({digest_of_row(record, notes), hash});
  }
  return measured;
}

// The first row of a file that the tree would run on this GPU with another implementation or
// configuration, as the end of a line; empty if there is none. Rows without a configuration are not
// judged.
inline std::string other_configuration(const std::vector<bench::Row>& rows, const std::string& gpu,
                                       const Tree& tree) {
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bench::Record record(rows[0], rows[r]);
    const PlannedRow measured{record.at("Backend"), record.at("Configuration")};
    if (measured.configuration.empty()) continue;
    const std::optional<PlannedRow> now = tree.plan(gpu, record.at("Command"));
    if (!now || *now == measured) continue;
    return fmt::format("\"{} {}\", the tree plans \"{} {}\" for {}", measured.backend,
                       measured.configuration, now->backend, now->configuration,
                       record.at("Command"));
  }
  return "";
}

// One line per file of results/<gpu>/*.csv, operator and digest of kernels other than the tree's:
//   STALE: results/h200/dense84.csv was measured with device sources X, the tree has Y of gemm
// one per file with a configuration other than the tree's, and one per file that is not a CSV or has
// a command that cannot be planned. Rows without a digest, as of other programs, are not judged.
// None if the folder is missing.
inline std::vector<std::string> stale_results(const std::string& folder, const Tree& tree) {
  std::vector<std::string> lines;
  for (const fs::path& path : result_files(folder)) {
    const fs::path gpu = path.parent_path().filename();
    const std::string shown = (fs::path(folder).filename() / gpu / path.filename()).string();
    try {
      const std::vector<bench::Row> rows = parse_csv(text_if_any(path.string()), path.string());
      for (const auto& [op, hash] : measured_in(rows)) {
        const std::string now = tree.digest(op);
        if (hash == now) continue;
        lines.push_back(
            fmt::format("STALE: {} was measured with device sources {}, the tree has {} of {}",
                        shown, hash, now.empty() ? "none" : now, op.empty() ? "no operator" : op));
      }
      if (const std::string other = other_configuration(rows, gpu.string(), tree); !other.empty()) {
        lines.push_back(fmt::format("STALE: {} was measured with {}", shown, other));
      }
    } catch (const std::exception& error) {
      lines.push_back(fmt::format("UNREADABLE: {}: {}", shown, error.what()));
    }
  }
  return lines;
}

}  // namespace octet::tool
