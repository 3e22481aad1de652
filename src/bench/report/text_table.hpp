// Text for a person at a terminal: tables that fit its width, units that fit the values, and text of
// unknown origin made safe to print.
#pragma once

#include "bench/report/record.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace octet::bench {

// Escapes control characters and bytes that are not UTF-8: "\x1b[31m" becomes "\\x1b[31m".
std::string printable(std::string_view text);

// The width on a terminal, in characters, of text that is UTF-8.
std::size_t width_of(std::string_view text);
// The text, or its beginning and "…" if it is wider than `width`.
std::string cut(std::string_view text, std::size_t width);

// A unit and how many of it are one of the base unit: {"GFLOPS", 1000} for "TFLOPS".
struct Unit {
  std::string name;
  double per_base = 1;

  // "97.6", "-" for NaN: four digits are enough for a person.
  std::string text(double value) const;
};
// The unit of a table of `values`, given in "TFLOPS", "TB/s", "GB/s" or "ms": the largest of the
// family in which their median is at least 1. Values that are NaN do not count.
Unit fitting_unit(const std::string& base, std::vector<double> values);

struct TableStyle {
  std::size_t left_columns = 1;  // left-aligned, as are all columns of texts
  bool colours = false;          // of PASS, FAIL and ERROR
  std::size_t width = 0;         // of the terminal; 0: as wide as the table needs
};
// The rows, the first with the titles, in columns as wide as their widest cell. A table that is too
// wide is narrowed: columns with the same value in all rows move to a line above, columns at the
// right end are left out and named below if need be, and long texts are cut.
std::string table_text(std::vector<Row> rows, const TableStyle& style);

// Whether a stream is a terminal that takes escape sequences: TERM is not dumb.
bool takes_escapes(int file);
// The width of the terminal that a stream is; 0 if it is none, or does not say.
std::size_t terminal_width(int file);
// Whether stdout is a terminal that takes colours, and NO_COLOR is not set.
bool stdout_has_colours();
// The width of the terminal that is stdout. If it is none: COLUMNS if set, else 0 (unlimited).
std::size_t stdout_width();

}  // namespace octet::bench
