// What a person sees of a run of `octet bench quantize`: gigabytes a second on the CPU, terabytes on
// a GPU.
#include "console.hpp"
#include "quantize_row.hpp"
#include "record.hpp"
#include "run_plan.hpp"

#include "bench/statistics.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {
namespace {

std::string digits(double value, double unit) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value / unit);
}

CsvRow table_row(const Record& record) {
  const double unit = record.at("Platform") == "cuda" ? 1000 : 1;
  return {record.at("Rows") + "x" + record.at("Cols"),
          record.at("Block"),
          record.at("Transposed Block"),
          record.at("Check"),
          digits(record.number("Time (ms)"), 1),
          digits(record.number("GB/s"), unit),
          digits(record.number("Memcpy GB/s"), unit),
          digits(record.number("Memcpy Ratio"), 1),
          digits(record.number("Spread (%)"), 1),
          record.at("Check") == "PASS" ? record.at("Note") : ""};
}

}  // namespace

int print_quantize_summary(const std::vector<std::optional<CsvRow>>& rows,
                           const std::vector<std::string>& repeats) {
  const CsvRow header = quantize_header();
  std::vector<CsvRow> table(1);
  std::vector<double> ratios;
  std::string unit = "GB/s";
  for (const auto& row : rows) {
    if (!row) continue;
    const Record record(header, *row);
    if (record.at("Platform") == "cuda") unit = "TB/s";
    table.push_back(table_row(record));
    if (const double ratio = record.number("Memcpy Ratio"); !std::isnan(ratio)) {
      ratios.push_back(ratio);
    }
  }
  table[0] = {"shape", "block",        "transposed", "check",    "ms",
              unit,    "copy " + unit, "ratio",      "spread %", "note"};
  print_table(table, 4);
  print_failures(header, rows, "Backend", repeats);
  if (!ratios.empty()) {
    fmt::print("score: {:.3f} of a copy of the same bytes, the geometric mean\n",
               bench::geometric_mean(ratios));
  }
  return print_counts(header, rows);
}

}  // namespace octet::tool
