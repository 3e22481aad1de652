// A row of results: its fields as text, by column name and as a line of CSV; and files on disk that
// are replaced whole.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace octet::bench {

using Row = std::vector<std::string>;

inline void append(Row& row, Row more) {
  row.insert(row.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// "31.62": a number in `count` significant digits, independent of the locale.
inline std::string digits(double value, int count) {
  char text[32];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, count);
  return error == std::errc() ? std::string(text, end) : std::string();
}

// A number as a field: enough digits for every rate; empty for NaN.
inline std::string number(double value) {
  return std::isnan(value) ? std::string() : digits(value, 6);
}

class Record {
 public:
  Record(const Row& header, const Row& row) : header_(header), row_(row) {}

  // Empty if there is no such column.
  std::string at(std::string_view column) const {
    const auto found = std::find(header_.begin(), header_.end(), column);
    const auto index = static_cast<std::size_t>(found - header_.begin());
    return index < row_.size() ? row_[index] : std::string();
  }

  // NaN if the field is empty.
  double number(std::string_view column) const {
    const std::string text = at(column);
    double value = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(text.data(), text.data() + text.size(), value);  // independent of the locale
    return value;
  }

 private:
  const Row& header_;
  const Row& row_;
};

// A row in RFC 4180 form, with its line end. Fields are quoted if they need it.
std::string csv_line(const Row& row);
// The header and the rows.
std::string csv_text(const Row& header, const std::vector<Row>& rows);

// Writes all of `content` to an open file. Returns 0 or an errno.
int write_all(int file, std::string_view content);

// The file that `path` names: a symbolic link is followed to its end, which need not exist. Empty if
// the links form a loop.
std::string link_target(const std::string& path);

// Writes `content` to the file `beside` and renames that to `path`: a reader sees the old file or
// the new one, never half of it. If `path` is a symbolic link, it stays and its target is replaced,
// from a file beside the target. Returns 0, or the errno of what failed; then `path` is unchanged
// and the other file is removed.
int replace_file(const std::string& path, const std::string& beside, std::string_view content);

// A name beside `path` that no other writer uses, on any machine.
std::string name_beside(const std::string& path);

}  // namespace octet::bench
