// What --help prints.
#pragma once

#include "tool/options/command_text.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

// Options of one group, in the order in which they were added. Arguments come first; options
// without a group come last, under "Other" if there are groups.
struct OptionSection {
  std::string title;
  std::vector<OptionText> options;
};
std::vector<OptionSection> option_sections(const CommandText& command);

// "octet bench gemm [OPTIONS]", "octet compare [OPTIONS] OLD NEW"
std::string usage_text(const CommandText& command);

// Columns of the terminal, or $COLUMNS, between 60 and 100.
std::size_t help_columns();

std::string help_text(const CommandText& command, std::size_t columns);

}  // namespace octet::tool
