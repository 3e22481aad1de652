#include "bench/report/text_table.hpp"

#include "bench/timing/timing.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>

namespace octet::bench {
namespace {

constexpr std::string_view kEllipsis = "…";
constexpr std::size_t kGap = 2;         // spaces between columns
constexpr std::size_t kLeastWidth = 8;  // a text is not cut below it

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The length of the UTF-8 sequence at the front, or 0 if it is invalid or a control character.
std::size_t printable_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7f ? 0 : 1;
  const std::size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const bool is_c1_control = lead == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  return is_c1_control ? 0 : count;
}

const char* colour(const std::string& cell) {
  if (cell == "PASS") return "\033[32m";
  if (cell == "FAIL" || cell == "ERROR") return "\033[31m";
  return nullptr;
}

std::vector<std::size_t> column_widths(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  return widths;
}

std::size_t table_width(const std::vector<std::size_t>& widths) {
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

bool is_constant(const std::vector<Row>& rows, std::size_t column) {
  return std::all_of(rows.begin() + 1, rows.end(),
                     [&](const Row& row) { return row[column] == rows[1][column]; });
}

// "1.5", "-2 %", "1.12x", "7 (9)", "-", "": no text. "64x64" is one.
bool is_number(std::string_view cell) {
  if (!cell.empty() && cell.back() == 'x') cell.remove_suffix(1);
  return cell.find_first_not_of("0123456789.+-%() ") == std::string_view::npos;
}

// "512x1024x768": the key of a row, never cut.
bool is_shape(std::string_view cell) {
  return cell.find('x') != std::string_view::npos &&
         cell.find_first_not_of("0123456789x") == std::string_view::npos;
}

bool has_text(const std::vector<Row>& rows, std::size_t column) {
  return !rows.empty() && std::any_of(rows.begin() + 1, rows.end(),
                                      [&](const Row& row) { return !is_number(row[column]); });
}

void erase_column(std::vector<Row>& rows, std::size_t column) {
  for (Row& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
}

void erase_empty_columns(std::vector<Row>& rows, std::size_t& left_columns) {
  for (std::size_t i = rows[0].size(); i-- > 1;) {
    const bool empty = rows.size() > 1 && is_constant(rows, i) && rows[1][i].empty();
    if (!empty) continue;
    erase_column(rows, i);
    if (i < left_columns) --left_columns;
  }
}

// Removes the columns that have one value in all of several rows. Returns "device NVIDIA H200 ·
// FAIL 0" in lines of `width`. The first column names the rows and stays.
std::string take_constant_columns(std::vector<Row>& rows, std::size_t& left_columns,
                                  std::size_t width) {
  std::string headline;
  if (rows.size() < 3) return headline;
  std::size_t line_width = 0;
  for (std::size_t i = 1; i < rows[0].size();) {
    if (!is_constant(rows, i)) {
      ++i;
      continue;
    }
    const std::string fact = cut(rows[0][i] + " " + rows[1][i], width);
    if (!rows[1][i].empty() && rows[1][i] != "-") {
      const bool fits = line_width + 3 + width_of(fact) <= width;
      headline += headline.empty() ? "" : fits ? " · " : "\n";
      line_width = (fits && line_width > 0 ? line_width + 3 : 0) + width_of(fact);
      headline += fact;
    }
    erase_column(rows, i);
    if (i < left_columns) --left_columns;
  }
  return headline;
}

// The width of a column if its texts are cut as far as they may be.
std::size_t least_width(const std::vector<Row>& rows, std::size_t column, std::size_t width) {
  const bool may_be_cut = std::any_of(rows.begin() + 1, rows.end(), [&](const Row& row) {
    return !is_number(row[column]) && !is_shape(row[column]);
  });
  return may_be_cut ? std::min(width, kLeastWidth) : width;
}

// Removes columns at the right end until the others can be cut to fit. Returns their titles.
Row take_last_columns(std::vector<Row>& rows, std::size_t width) {
  std::vector<std::size_t> widths = column_widths(rows);
  for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = least_width(rows, i, widths[i]);
  Row titles;
  while (widths.size() > 2 && table_width(widths) > width) {
    titles.insert(titles.begin(), rows[0].back());
    erase_column(rows, widths.size() - 1);
    widths.pop_back();
  }
  return titles;
}

// Cuts the widest texts until the table fits, or until all are as narrow as may be.
void cut_texts(std::vector<Row>& rows, std::size_t width) {
  std::vector<std::size_t> widths = column_widths(rows);
  std::vector<std::size_t> least;
  for (std::size_t i = 0; i < widths.size(); ++i) least.push_back(least_width(rows, i, widths[i]));
  while (table_width(widths) > width) {
    std::size_t widest = 0;  // of those that may be cut
    for (std::size_t i = 1; i < widths.size(); ++i) {
      const bool may_be_cut = widths[i] > least[i];
      if (may_be_cut && (widths[widest] == least[widest] || widths[i] > widths[widest])) widest = i;
    }
    if (widths[widest] == least[widest]) break;
    --widths[widest];
  }
  for (Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = cut(row[i], widths[i]);
  }
}

std::string lines_of(const std::vector<Row>& rows, const TableStyle& style) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::vector<bool> left;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    left.push_back(i < style.left_columns || has_text(rows, i));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      std::string cell = row[i];
      if (const char* code = colour(cell); style.colours && code != nullptr) {
        cell.insert(0, code).append("\033[0m");
      }
      if (i > 0) line.append(kGap, ' ');
      line += left[i] ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const std::size_t count = printable_bytes(text);
    if (count > 0) {
      result += text.substr(0, count);
    } else {
      const auto byte = static_cast<unsigned char>(text[0]);
      result += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]};
    }
    text.remove_prefix(std::max<std::size_t>(count, 1));
  }
  return result;
}

std::size_t width_of(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  std::size_t end = 0;
  for (std::size_t kept = 0; end < text.size(); ++end) {
    if (!is_continuation(text[end]) && ++kept == width) break;
  }
  return std::string(text.substr(0, end)).append(kEllipsis);
}

std::string Unit::text(double value) const {
  return std::isnan(value) ? "-" : digits(value * per_base, 4);
}

Unit fitting_unit(const std::string& base, std::vector<double> values) {
  static const std::array<std::vector<Unit>, 4> families{{
      {{"TFLOPS", 1}, {"GFLOPS", 1e3}, {"MFLOPS", 1e6}},
      {{"TB/s", 1}, {"GB/s", 1e3}, {"MB/s", 1e6}},
      {{"TB/s", 1e-3}, {"GB/s", 1}, {"MB/s", 1e3}},
      {{"s", 1e-3}, {"ms", 1}, {"us", 1e3}},
  }};
  std::erase_if(values, [](double value) { return std::isnan(value); });
  const auto family = std::find_if(families.begin(), families.end(), [&](const auto& units) {
    return std::any_of(units.begin(), units.end(),
                       [&](const Unit& unit) { return unit.name == base && unit.per_base == 1; });
  });
  if (family == families.end() || values.empty()) return {base, 1};
  const double typical = median(values);
  for (const Unit& unit : *family) {
    if (typical * unit.per_base >= 1) return unit;
  }
  return family->back();
}

std::string table_text(std::vector<Row> rows, const TableStyle& style) {
  std::size_t columns = 0;
  for (const Row& row : rows) columns = std::max(columns, row.size());
  for (Row& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
    row.resize(columns);
  }
  const bool fits = style.width == 0 || table_width(column_widths(rows)) <= style.width;
  if (fits || rows.empty()) return lines_of(rows, style);
  TableStyle narrowed = style;
  erase_empty_columns(rows, narrowed.left_columns);
  if (table_width(column_widths(rows)) <= style.width) return lines_of(rows, narrowed);
  std::string text = take_constant_columns(rows, narrowed.left_columns, style.width);
  if (!text.empty()) text += '\n';
  const Row left_out = take_last_columns(rows, style.width);
  cut_texts(rows, style.width);
  text += lines_of(rows, narrowed);
  if (left_out.empty()) return text;
  std::string names;
  for (const std::string& title : left_out) {
    if (!title.empty()) names += (names.empty() ? ": " : ", ") + title;
  }
  return text + "not shown" + names + " (--wide shows all)\n";
}

bool takes_escapes(int file) {
  const char* term = std::getenv("TERM");
  return isatty(file) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

std::size_t terminal_width(int file) {
  winsize size{};
  return isatty(file) == 1 && ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool stdout_has_colours() {
  const char* refused = std::getenv("NO_COLOR");
  return takes_escapes(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

std::size_t stdout_width() {
  if (const std::size_t width = terminal_width(STDOUT_FILENO); width > 0) return width;
  const char* columns = std::getenv("COLUMNS");
  const std::string_view text = columns == nullptr ? "" : columns;
  std::size_t width = 0;
  std::from_chars(text.data(), text.data() + text.size(), width);
  return width;
}

}  // namespace octet::bench
