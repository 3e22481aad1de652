#include "tool/console.hpp"

#include <fmt/format.h>

#include <new>

namespace octet::tool {

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

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_table(const std::vector<bench::Row>& rows, std::size_t left_columns, bool wide) {
  fmt::print("{}", bench::table_text(rows, {left_columns, bench::stdout_has_colours(),
                                            wide ? 0 : bench::stdout_width()}));
}

void print_markdown(const std::vector<bench::Row>& rows) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    fmt::print("| {} |\n", fmt::join(rows[r], " | "));
    if (r == 0) fmt::print("|{}\n", fmt::join(bench::Row(rows[r].size(), "---|"), ""));
  }
}

}  // namespace octet::tool
