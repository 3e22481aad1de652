// One CSV of results, read and checked, every row as summarize, compare and report want it.
#pragma once

#include "tool/results/result_kind.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// Of a row that does not tell its own.
inline constexpr double kUsualSpread = 0.01;

struct ResultRow {
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

struct ResultTable {
  const ResultKind* kind = nullptr;
  std::string source;  // the path, for messages
  CsvRow header;
  std::vector<CsvRow> fields;  // as they stand in the file
  std::vector<ResultRow> rows;

  Record record(std::size_t index) const { return {header, fields[index]}; }
};

// Nothing where the header is of no kind. Throws UsageError that names `source` where columns are
// missing, a row is cut short or a field is not what its column asks for.
std::optional<ResultTable> parse_results(std::string_view text, const std::string& source);

// The same of a file. Throws UsageError where it cannot be read.
std::optional<ResultTable> read_results_file(const std::string& path);

}  // namespace octet::tool
