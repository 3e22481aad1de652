// Text for people: tables and messages.
#pragma once

#include "bench/report/text_table.hpp"

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

using bench::printable;  // text from a file or a command line, safe to print

// What went wrong, in words: the standard library's errors of memory have no message.
std::string explain(const std::exception& error);

// "45 s", "12 min", "3.5 h"
std::string in_words(double seconds);
// "1 row", "2 rows"
std::string counted(std::size_t count, std::string_view noun);

// Prints a table that fits the terminal; `wide` prints all of it. PASS, FAIL and ERROR are coloured
// on a terminal. The first `left_columns` are aligned left.
void print_table(const std::vector<bench::Row>& rows, std::size_t left_columns, bool wide = false);
// The same in Markdown.
void print_markdown(const std::vector<bench::Row>& rows);

}  // namespace octet::tool
