// What a person sees: a progress bar and colours on a terminal, plain tables everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

// One line on stderr that is drawn over; nothing where stderr is no terminal.
class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t done, const std::string& what);
  // Clears the line, so that something else can be printed.
  void clear();

 private:
  std::size_t total_;
  bool on_terminal_;
};

// Columns as wide as their widest cell; the first `left_columns` are aligned left. PASS, FAIL and
// ERROR are coloured on a terminal.
void print_table(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns);
// The same in Markdown.
void print_markdown(const std::vector<std::vector<std::string>>& rows);

}  // namespace octet::tool
