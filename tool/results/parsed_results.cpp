#include "tool/results/parsed_results.hpp"

#include "tool/cases/random_layers.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSpreadColumn = "Spread (%)";

class RowReader {
 public:
  RowReader(const ParsedResults& results, std::size_t index)
      : results_(results), record_(results.record(index)), line_(index + 2) {}

  ParsedRow read() const {
    const ResultKind& kind = *results_.kind;
    check_operator();
    for (const char* column : kind.shape) check_shape(column);
    ParsedRow row;
    row.shape = shape_of(kind, record_);
    row.name = kind.name_column == nullptr ? "" : record_.at(kind.name_column);
    if (row.name == "shape") row.name.clear();
    row.model = row.name.substr(0, row.name.rfind(' '));
    row.problem = kind.variant.empty() ? problem_of(record_.at("Command"), kind.shape_options)
                                       : join(kind.variant, " ");
    // Every table has a line per problem, and so one per group.
    if (!row.random_group().empty()) row.problem += " " + row.model;
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
    const ResultKind& kind = *results_.kind;
    if (kind.is_named_in_rows && record_.at(kOperatorColumn) != kind.op) {
      refuse(kOperatorColumn, fmt::format("{} as in row 2: a file has one operator", kind.op));
    }
  }

  // A kind with one shape column has all extents in it; otherwise each column has one.
  void check_shape(const char* column) const {
    const std::string text = record_.at(column);
    const bool whole_shape = results_.kind->shape.size() == 1;
    const auto count = whole_shape ? std::count(text.begin(), text.end(), 'x') + 1 : 1;
    std::vector<std::int64_t> extents(static_cast<std::size_t>(count));
    if (parse_shape(text, extents.data(), static_cast<int>(count))) return;
    refuse(column, whole_shape ? "whole numbers of at least 1 with x between them"
                               : "a whole number of at least 1");
  }

  void read_numbers(ParsedRow& row) const {
    const ResultKind& kind = *results_.kind;
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

  // NaN if the field is not exactly one finite number.
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
    refuse_usage("{}: row {}: {} is \"{}\", wanted {}", results_.source, line_, column,
                 record_.at(column), wanted);
  }

  const ParsedResults& results_;
  bench::Record record_;
  std::size_t line_;  // the header is row 1
};

// Everything but folders, sorted.
std::set<fs::path> files_below(const fs::path& folder) {
  std::set<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_directory()) files.insert(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    refuse_usage("{}: {}", error.path1().string(), error.code().message());
  }
  return files;
}

// Adds the file to the results, or to the skipped files with the reason.
void add_file(ResultFolder& folder, const fs::path& file, const std::string& name) {
  if (const std::string what = special_file(file.string()); !what.empty()) {
    folder.skipped.push_back(fmt::format("{} ({})", name, what));
  } else if (!fs::exists(file)) {
    folder.skipped.push_back(name + " (a link to nothing)");
  } else if (file.extension() != ".csv") {
    folder.skipped.push_back(name + " (not a CSV)");
  } else if (auto parsed = read_results_file(file.string()); !parsed) {
    folder.skipped.push_back(name + " (its columns are not those of octet bench)");
  } else if (parsed->rows.empty()) {
    folder.skipped.push_back(name + " (no rows)");
  } else {
    folder.results.push_back(std::move(*parsed));
    folder.names.push_back(name);
  }
}

ResultFolder folder_of_one(const std::string& path) {
  auto parsed =
      parse_results(read_text_file(path, path, "a CSV of results or a folder of them"), path);
  if (!parsed) {
    refuse_usage("{}: its columns are not those of octet bench, wanted a CSV of results", path);
  }
  if (parsed->rows.empty()) refuse_usage("{}: has no rows, wanted a CSV of results", path);
  ResultFolder folder;
  folder.results.push_back(std::move(*parsed));
  folder.names.push_back(fs::path(path).filename().string());
  folder.is_one_file = true;
  return folder;
}

}  // namespace

std::string ParsedRow::random_group() const { return tool::random_group(name); }

std::optional<ParsedResults> parse_results(std::string_view text, const std::string& source) {
  std::vector<bench::Row> rows = parse_csv(text, source);
  if (rows.empty()) refuse_usage("{}: is empty, wanted a CSV of results", source);
  ParsedResults results{
      kind_of(rows[0], rows.size() > 1 ? rows[1] : bench::Row{}), source, rows[0], {}, {}};
  if (results.kind == nullptr) return std::nullopt;
  if (const auto missing = missing_columns(*results.kind, results.header); !missing.empty()) {
    refuse_usage("{}: looks like a result of {}, but these columns are missing: {}", source,
                 results.kind->op, fmt::join(missing, ", "));
  }
  results.fields.assign(std::make_move_iterator(rows.begin() + 1),
                        std::make_move_iterator(rows.end()));
  for (std::size_t i = 0; i < results.fields.size(); ++i) {
    if (results.fields[i].size() != results.header.size()) {
      refuse_usage("{}: row {} has {} fields, wanted the {} of the header: was it cut short?",
                   source, i + 2, results.fields[i].size(), results.header.size());
    }
    results.rows.push_back(RowReader(results, i).read());
  }
  // A row that lost characters of its last field would still look complete.
  if (text.back() != '\n') {
    refuse_usage("{}: row {} does not end with a line end: was it cut short?", source, rows.size());
  }
  return results;
}

std::optional<ParsedResults> read_results_file(const std::string& path) {
  return parse_results(read_text_file(path, path, "a CSV of results"), path);
}

const ParsedResults* ResultFolder::find(const std::string& name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &results[static_cast<std::size_t>(found - names.begin())];
}

ResultFolder read_results_folder(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return folder_of_one(path);
  ResultFolder folder;
  for (const fs::path& file : files_below(path)) {
    add_file(folder, file, file.lexically_relative(path).string());
  }
  if (folder.results.empty()) {
    refuse_usage("{}: has no results: wanted CSVs of octet bench{}{}", path,
                 folder.skipped.empty() ? "" : "; ignored ", fmt::join(folder.skipped, ", "));
  }
  return folder;
}

}  // namespace octet::tool
