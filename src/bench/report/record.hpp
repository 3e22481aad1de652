// One row of results, its fields by the names of their columns.
#pragma once

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace octet::bench {

class Record {
 public:
  Record(const std::vector<std::string>& header, const std::vector<std::string>& row)
      : header_(header), row_(row) {}

  // Empty where there is no such column.
  std::string at(std::string_view column) const {
    const auto found = std::find(header_.begin(), header_.end(), column);
    const auto index = static_cast<std::size_t>(found - header_.begin());
    return index < row_.size() ? row_[index] : std::string();
  }

  // NaN where the field is empty.
  double number(std::string_view column) const {
    const std::string text = at(column);
    double value = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(text.data(), text.data() + text.size(), value);  // whatever the locale is
    return value;
  }

 private:
  const std::vector<std::string>& header_;
  const std::vector<std::string>& row_;
};

}  // namespace octet::bench
