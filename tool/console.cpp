#include "tool/console.hpp"

#include "bench/report/tables.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <new>

namespace octet::tool {
namespace {

constexpr std::size_t kBarCells = 30;

}  // namespace

std::string explain(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "the process is out of memory";
  return error.what();
}

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

// Assumes that the remaining cases take as long on average as the finished ones.
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

void print_table(const std::vector<bench::Row>& rows, std::size_t left_columns) {
  fmt::print("{}", bench::table_text(rows, left_columns, bench::stdout_has_colours()));
}

void print_markdown(const std::vector<bench::Row>& rows) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    fmt::print("| {} |\n", fmt::join(rows[r], " | "));
    if (r == 0) fmt::print("|{}\n", fmt::join(bench::Row(rows[r].size(), "---|"), ""));
  }
}

}  // namespace octet::tool
