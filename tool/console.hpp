// Output for people: a progress bar and colours on a terminal, plain tables everywhere.
#pragma once

#include "bench/report/record.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <vector>

namespace octet::tool {

// What went wrong, in words: the standard library's errors of memory have no message.
std::string explain(const std::exception& error);

// "45 s", "12 min", "3.5 h"
std::string in_words(double seconds);

// One line on stderr, redrawn in place, with the time left. Prints nothing if stderr is no
// terminal.
class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t done, const std::string& what);
  bool on_terminal() const { return on_terminal_; }
  // Clears the line, so that something else can be printed.
  void clear();

 private:
  std::string time_left(std::size_t done) const;

  std::size_t total_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Columns as wide as their widest cell; the first `left_columns` are aligned left. PASS, FAIL and
// ERROR are coloured on a terminal.
void print_table(const std::vector<bench::Row>& rows, std::size_t left_columns);
// The same in Markdown.
void print_markdown(const std::vector<bench::Row>& rows);

}  // namespace octet::tool
