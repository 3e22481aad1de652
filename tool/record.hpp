// One row of a CSV, its fields by the names of their columns.
#pragma once

#include "csv.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

namespace octet::tool {

class Record {
 public:
  Record(const CsvRow& header, const CsvRow& row) : header_(header), row_(row) {}

  // Empty where there is no such column.
  std::string at(std::string_view column) const {
    const auto found = std::find(header_.begin(), header_.end(), column);
    const auto index = static_cast<std::size_t>(found - header_.begin());
    return index < row_.size() ? row_[index] : std::string();
  }

  // NaN where the field is empty.
  double number(std::string_view column) const {
    const std::string text = at(column);
    return text.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : std::strtod(text.c_str(), nullptr);
  }

 private:
  const CsvRow& header_;
  const CsvRow& row_;
};

// Those of the cases that have been run.
inline std::vector<CsvRow> done_rows(const std::vector<std::optional<CsvRow>>& rows) {
  std::vector<CsvRow> done;
  for (const auto& row : rows) {
    if (row) done.push_back(*row);
  }
  return done;
}

}  // namespace octet::tool
