#include "gemm_summary.hpp"

#include "console.hpp"
#include "record.hpp"
#include "run_plan.hpp"

#include "bench/statistics.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {
namespace {

struct TableColumn {
  const char* title;
  const char* column;
};

std::vector<TableColumn> table_columns(bool with_baseline) {
  std::vector<TableColumn> columns{{"case", "Case"},
                                   {"check", "Check"},
                                   {"M", "M"},
                                   {"N", "N"},
                                   {"K", "K"},
                                   {"forward ms", "Forward Time (ms)"},
                                   {"TFLOPS", "Forward TFLOPS"},
                                   {"backward ms", "Backward Time (ms)"},
                                   {"TFLOPS", "Backward TFLOPS"},
                                   {"step TFLOPS", "Combined Step TFLOPS"},
                                   {"spread %", "Spread (%)"},
                                   {"SNR dB", "Forward G1 SNR (dB)"},
                                   {"f16 SNR dB", "f16 SNR (dB)"}};
  if (with_baseline) {
    columns.push_back({"forward ratio", "Forward Ratio"});
    columns.push_back({"backward ratio", "Backward Ratio"});
    columns.push_back({"combined ratio", "Combined Ratio"});
  }
  return columns;
}

// "1234", "12.35", "-": four digits are enough for a person.
std::string brief(const std::string& field) {
  if (field.empty()) return "-";
  char* end = nullptr;
  const double value = std::strtod(field.c_str(), &end);
  const bool whole = field.find('.') == std::string::npos;
  return *end != '\0' || whole ? field : fmt::format("{:.4g}", value);
}

CsvRow table_row(const std::vector<TableColumn>& columns, const Record& record) {
  CsvRow fields;
  for (const auto& [title, column] : columns) {
    const bool plain_snr =
        column == std::string_view("Forward G1 SNR (dB)") && record.at("Dtype") != "fp8";
    fields.push_back(brief(record.at(plain_snr ? "Forward G4 SNR (dB)" : column)));
  }
  fields.push_back(record.at("Check") == "PASS" ? record.at("Note") : "");
  return fields;
}

// The geometric mean of a column over the rows that have it; NaN of none.
double geometric_mean_of(const CsvRow& header, const std::vector<std::optional<CsvRow>>& rows,
                         const char* column) {
  std::vector<double> values;
  for (const auto& row : rows) {
    const double value =
        row ? Record(header, *row).number(column) : std::numeric_limits<double>::quiet_NaN();
    if (!std::isnan(value)) values.push_back(value);
  }
  return bench::geometric_mean(values);
}

}  // namespace

int print_gemm_summary(const CsvRow& header, const std::vector<std::optional<CsvRow>>& rows,
                       const std::vector<std::string>& repeats) {
  const bool with_baseline = std::find(header.begin(), header.end(), "Baseline") != header.end();
  const std::vector<TableColumn> columns = table_columns(with_baseline);
  std::vector<CsvRow> table(1);
  for (const TableColumn& column : columns) table[0].emplace_back(column.title);
  table[0].emplace_back("note");
  std::string baseline;
  for (const auto& row : rows) {
    if (!row) continue;
    const Record record(header, *row);
    table.push_back(table_row(columns, record));
    baseline = record.at("Baseline");
  }
  print_table(table, 2);
  print_failures(header, rows, "Case", repeats);
  const double rate = geometric_mean_of(header, rows, "Combined Step TFLOPS");
  if (!std::isnan(rate)) {
    fmt::print("score: {:.4g} TFLOPS, the geometric mean of Combined Step TFLOPS\n", rate);
  }
  for (const char* part : {"Forward", "Backward"}) {
    const double part_rate =
        geometric_mean_of(header, rows, fmt::format("{} TFLOPS", part).c_str());
    if (!std::isnan(part_rate)) fmt::print("  {}: {:.4g} TFLOPS\n", part, part_rate);
  }
  const double ratio = geometric_mean_of(header, rows, "Combined Ratio");
  if (!std::isnan(ratio)) {
    fmt::print(
        "ratio: {:.3f}, the geometric mean of {}'s time over ours (forward {:.3f}, backward "
        "{:.3f})\n",
        ratio, baseline, geometric_mean_of(header, rows, "Forward Ratio"),
        geometric_mean_of(header, rows, "Backward Ratio"));
  }
  return print_counts(header, rows);
}

}  // namespace octet::tool
