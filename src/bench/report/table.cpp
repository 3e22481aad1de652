#include "bench/report/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace octet::bench {
namespace {

const char* colour(const std::string& cell) {
  if (cell == "PASS") return "\033[32m";
  if (cell == "FAIL" || cell == "ERROR") return "\033[31m";
  return nullptr;
}

std::vector<std::size_t> column_widths(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

}  // namespace

std::string table_text(const std::vector<Row>& rows, std::size_t left_columns, bool colours) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (const char* code = colour(cell); colours && code != nullptr) {
        cell.insert(0, code).append("\033[0m");
      }
      cell.insert(i < left_columns ? cell.size() : 0, widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

bool stdout_has_colours() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

}  // namespace octet::bench
