// What --help prints.
#pragma once

#include "tool/options/command_text.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

// The text in lines of at most `columns`; all but the first are indented.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent = 0);

// "-o, --output FILE.csv"
std::string option_usage(const OptionText& option);

// Options of one group, in the order in which they were added. Arguments come first; options
// without a group come last, under "Other" if there are groups.
struct OptionSection {
  std::string title;
  std::vector<OptionText> options;
};
std::vector<OptionSection> option_sections(const CommandText& command);

// "octet bench gemm [OPTIONS]", "octet history trend [OPTIONS] --shape MxNxK"
std::string usage_text(const CommandText& command);

// A name and what it means: an option, a command, a variable of the environment.
struct HelpEntry {
  std::string name;
  std::string about;
};
struct HelpList {
  std::string title;
  std::vector<HelpEntry> entries;
};
// Names on the left, texts wrapped on the right. All lists have the same left column.
std::string lists_text(const std::vector<HelpList>& lists, std::size_t columns);

// What the whole tool has, for the help of `octet` and its manual: exit statuses, the environment,
// and where the documentation is.
std::vector<HelpList> general_notes();

// Columns of the terminal or, without one, $COLUMNS or 80; between 60 and 100.
std::size_t help_columns();

std::string help_text(const CommandText& command, std::size_t columns);

}  // namespace octet::tool
