// Results for summarize, compare and report: one CSV or a folder of them, read and checked.
#pragma once

#include "tool/results/result_kind.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// The spread of a row that gives none.
inline constexpr double kUsualSpread = 0.01;

struct ParsedRow {
  std::string shape;             // "4096x12288x4096"
  std::string name;              // "Llama-2-7B attn_qkv"; empty for a bare shape
  std::string model;             // "Llama-2-7B"
  std::string problem;           // from problem_of() or the kind's variant; then a random group
  std::string key;               // all of the above; equal for two rows that can be compared
  std::string device;            // the GPU, or the CPU for a row from the CPU
  std::string backend;           // what was run
  std::string check;             // PASS, FAIL or ERROR
  std::vector<double> rates;     // only of a PASS: the kind's rates, in its unit
  double time_ms = 0;            // of the step; NaN if the kind has none
  double spread = kUsualSpread;  // 0.02: half of the samples lie within 2 %

  bool passed() const { return check == "PASS"; }
  double step_rate() const { return rates.back(); }
  std::string random_group() const;
  std::string label() const { return name.empty() ? shape : name + " " + shape; }
};

struct ParsedResults {
  const ResultKind* kind = nullptr;
  std::string source;  // the path, for messages
  bench::Row header;
  std::vector<bench::Row> fields;  // as in the file
  std::vector<ParsedRow> rows;

  bench::Record record(std::size_t index) const { return {header, fields[index]}; }
};

// Returns nullopt if the header is of no kind. Throws UsageError that names `source` if columns are
// missing, a row is cut short or a field does not fit its column.
std::optional<ParsedResults> parse_results(std::string_view text, const std::string& source);

// The same for a file. Throws UsageError if it cannot be read.
std::optional<ParsedResults> read_results_file(const std::string& path);

// All result CSVs of a folder and its subfolders, sorted by name; or one file, as a folder of one.
struct ResultFolder {
  std::vector<ParsedResults> results;
  std::vector<std::string> names;    // of the results: paths relative to the folder
  std::vector<std::string> skipped;  // "peers.txt (not a CSV)"
  bool is_one_file = false;          // a file was given, not a folder

  const ParsedResults* find(const std::string& name) const;  // nullptr if there is none
};

// `path` names a folder or one CSV. Skips files of another kind in a folder. Throws UsageError if
// there is no such file or folder, if it has no results, or if a file is broken.
ResultFolder read_results_folder(const std::string& path);

// Prints one line per skipped file on stderr, and the number of those after the fifth.
void print_skipped(const ResultFolder& folder);

}  // namespace octet::tool
