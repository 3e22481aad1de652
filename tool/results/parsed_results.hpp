// Results as summarize, compare and report want them: CSVs read and checked, one or a folder of them.
#pragma once

#include "tool/results/result_kind.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// Of a row that does not tell its own.
inline constexpr double kUsualSpread = 0.01;

struct ParsedRow {
  std::string shape;             // "4096x12288x4096"
  std::string name;              // "Llama-2-7B attn_qkv"; empty for a bare shape
  std::string model;             // "Llama-2-7B"
  std::string problem;           // as problem_of() has it, or the variant of the kind
  std::string key;               // all of the above: the same of two rows that can be compared
  std::string device;            // the GPU, or the CPU where the row is of one
  std::string backend;           // what was run
  std::string check;             // PASS, FAIL or ERROR
  std::vector<double> rates;     // of a PASS: as the kind has them, in its unit
  double time_ms = 0;            // of the step; NaN where the kind has none
  double spread = kUsualSpread;  // 0.02: half of the samples lie within 2 %

  bool passed() const { return check == "PASS"; }
  double step_rate() const { return rates.back(); }
  std::string label() const { return name.empty() ? shape : name + " " + shape; }
};

struct ParsedResults {
  const ResultKind* kind = nullptr;
  std::string source;  // the path, for messages
  bench::Row header;
  std::vector<bench::Row> fields;  // as they stand in the file
  std::vector<ParsedRow> rows;

  bench::Record record(std::size_t index) const { return {header, fields[index]}; }
};

// Nothing where the header is of no kind. Throws UsageError that names `source` where columns are
// missing, a row is cut short or a field is not what its column asks for.
std::optional<ParsedResults> parse_results(std::string_view text, const std::string& source);

// The same of a file. Throws UsageError where it cannot be read.
std::optional<ParsedResults> read_results_file(const std::string& path);

// All result CSVs of a folder and the folders in it, in the order of their names.
struct ResultFolder {
  std::vector<ParsedResults> results;
  std::vector<std::string> names;    // of the results: paths below the folder
  std::vector<std::string> skipped;  // "peers.txt: no CSV"

  const ParsedResults* find(const std::string& name) const;  // nullptr where there is none
};

// Files of another kind are skipped. Throws UsageError where the folder is missing, has no results
// or a file is broken.
ResultFolder read_results_folder(const std::string& path);

// One line for each on stderr.
void print_skipped(const ResultFolder& folder);

}  // namespace octet::tool
