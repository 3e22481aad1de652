#include "console.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace octet::tool {
namespace {

constexpr std::size_t kBarCells = 30;

bool stdout_has_colours() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

const char* colour(const std::string& cell) {
  if (cell == "PASS") return "\033[32m";
  if (cell == "FAIL" || cell == "ERROR") return "\033[31m";
  return nullptr;
}

std::vector<std::size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

}  // namespace

std::string in_words(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * kMinute) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} h", seconds / kHour);
}

Progress::Progress(std::size_t total) : total_(total), on_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(std::size_t done, const std::string& what) {
  if (!on_terminal_) return;
  const std::size_t cells = total_ == 0 ? kBarCells : done * kBarCells / total_;
  fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}/{} {}{}", "", cells, "", kBarCells - cells, done,
             total_, what, time_left(done));
  std::fflush(stderr);
}

// As long for each of the others as for those that are done.
std::string Progress::time_left(std::size_t done) const {
  if (done == 0 || done >= total_) return "";
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
  const double seconds =
      gone.count() / static_cast<double>(done) * static_cast<double>(total_ - done);
  return fmt::format(", {} left", in_words(seconds));
}

void Progress::clear() {
  if (!on_terminal_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns) {
  const std::vector<std::size_t> widths = column_widths(rows);
  const bool colours = stdout_has_colours();
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = i < left_columns ? fmt::format("{:<{}}", row[i], widths[i])
                                          : fmt::format("{:>{}}", row[i], widths[i]);
      if (const char* code = colour(row[i]); colours && code != nullptr) {
        cell.insert(0, code).append("\033[0m");
      }
      line += (i == 0 ? "" : "  ") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void print_markdown(const std::vector<std::vector<std::string>>& rows) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    fmt::print("| {} |\n", fmt::join(rows[r], " | "));
    if (r == 0)
      fmt::print("|{}\n", fmt::join(std::vector<std::string>(rows[r].size(), "---|"), ""));
  }
}

}  // namespace octet::tool
