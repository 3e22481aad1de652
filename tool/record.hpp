// One row of a CSV, its fields by the names of their columns.
#pragma once

#include "csv.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

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

}  // namespace octet::tool
