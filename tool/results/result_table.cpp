#include "tool/results/result_table.hpp"

#include "tool/cases/cases.hpp"
#include "tool/options/parse_number.hpp"
#include "tool/results/row_meaning.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace octet::tool {
namespace {

constexpr const char* kSpreadColumn = "Spread (%)";

class RowReader {
 public:
  RowReader(const ResultTable& table, std::size_t index)
      : table_(table), record_(table.record(index)), line_(index + 2) {}

  ResultRow read() const {
    const ResultKind& kind = *table_.kind;
    check_operator();
    for (const char* column : kind.shape) check_shape(column);
    ResultRow row;
    row.shape = shape_of(kind, record_);
    row.name = kind.name_column == nullptr ? "" : record_.at(kind.name_column);
    if (row.name == "shape") row.name.clear();
    row.model = row.name.substr(0, row.name.rfind(' '));
    row.problem = kind.variant.empty() ? problem_of(record_) : join(kind.variant, " ");
    row.backend = record_.at(kind.backend);
    row.key = row.label() + " " + row.problem;
    if (kind.backend_is_key) row.key += " " + row.backend;
    const bool on_gpu = record_.at("Platform") != "cpu";
    row.device = record_.at(on_gpu ? "GPU" : "CPU");
    row.check = record_.at("Check");
    if (row.check != "PASS" && row.check != "FAIL" && row.check != "ERROR") {
      refuse("Check", "PASS, FAIL or ERROR");
    }
    if (row.passed()) read_numbers(row);
    return row;
  }

 private:
  void check_operator() const {
    const ResultKind& kind = *table_.kind;
    if (kind.is_named_in_rows && record_.at(kOperatorColumn) != kind.op) {
      refuse(kOperatorColumn, fmt::format("{} as in row 2: a file has one operator", kind.op));
    }
  }

  // A column of its own has one extent, a shape in one column all of them.
  void check_shape(const char* column) const {
    const std::string text = record_.at(column);
    const bool whole_shape = table_.kind->shape.size() == 1;
    const auto count = whole_shape ? std::count(text.begin(), text.end(), 'x') + 1 : 1;
    std::vector<std::int64_t> extents(static_cast<std::size_t>(count));
    if (parse_shape(text, extents.data(), static_cast<int>(count))) return;
    refuse(column, whole_shape ? "whole numbers of at least 1 with x between them"
                               : "a whole number of at least 1");
  }

  void read_numbers(ResultRow& row) const {
    const ResultKind& kind = *table_.kind;
    for (const RateColumn& rate : kind.rates) {
      row.rates.push_back(above_zero(rate.column) / kind.column_per_unit);
    }
    row.time_ms = kind.time == nullptr ? std::nan("") : above_zero(kind.time);
    if (!record_.at(kSpreadColumn).empty()) row.spread = spread_percent() / 100;
  }

  double spread_percent() const {
    const double percent = finite(kSpreadColumn);
    if (!(percent >= 0)) refuse(kSpreadColumn, "a number of at least 0, or nothing");
    return percent;
  }

  double above_zero(const char* column) const {
    const double value = finite(column);
    if (!(value > 0)) refuse(column, "a number above 0 in a row that is PASS");
    return value;
  }

  // NaN where the field is no number, has more than one or is infinite.
  double finite(const char* column) const {
    const std::string text = record_.at(column);
    double value = 0;
    return parse_number(text, value) && std::isfinite(value) ? value : std::nan("");
  }

  std::string join(const std::vector<const char*>& columns, const char* between) const {
    std::vector<std::string> values;
    values.reserve(columns.size());
    for (const char* column : columns) values.push_back(record_.at(column));
    return fmt::format("{}", fmt::join(values, between));
  }

  [[noreturn]] void refuse(const char* column, const std::string& wanted) const {
    refuse_usage("{}: row {}: {} is \"{}\", wanted {}", table_.source, line_, column,
                 record_.at(column), wanted);
  }

  const ResultTable& table_;
  Record record_;
  std::size_t line_;  // the header is row 1
};

}  // namespace

std::optional<ResultTable> parse_results(std::string_view text, const std::string& source) {
  std::vector<CsvRow> rows = parse_csv(text, source);
  if (rows.empty()) refuse_usage("{}: is empty, wanted a CSV of results", source);
  ResultTable table{
      kind_of(rows[0], rows.size() > 1 ? rows[1] : CsvRow{}), source, rows[0], {}, {}};
  if (table.kind == nullptr) return std::nullopt;
  if (const auto missing = missing_columns(*table.kind, table.header); !missing.empty()) {
    refuse_usage("{}: looks like a result of {}, but these columns are missing: {}", source,
                 table.kind->op, fmt::join(missing, ", "));
  }
  table.fields.assign(std::make_move_iterator(rows.begin() + 1),
                      std::make_move_iterator(rows.end()));
  for (std::size_t i = 0; i < table.fields.size(); ++i) {
    if (table.fields[i].size() != table.header.size()) {
      refuse_usage("{}: row {} has {} fields, wanted the {} of the header: was it cut short?",
                   source, i + 2, table.fields[i].size(), table.header.size());
    }
    table.rows.push_back(RowReader(table, i).read());
  }
  // With fewer characters in its last field a row still looks whole.
  if (text.back() != '\n') {
    refuse_usage("{}: row {} does not end with a line end: was it cut short?", source, rows.size());
  }
  return table;
}

std::optional<ResultTable> read_results_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    refuse_usage("{}: is a folder, wanted a file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{}: {}", path, std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  return parse_results(text.str(), path);
}

}  // namespace octet::tool
