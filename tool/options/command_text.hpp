// The commands and their options in words, as the tables of CLI11 have them. The help, the manual
// and the completions print these, so that a new option appears in all of them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace octet::tool {

inline constexpr const char* kNoGroup = "Options";  // of an option that is added to no group
inline constexpr const char* kPath = "PATH";        // the type of an argument that is a path

struct OptionText {
  std::vector<std::string> names;  // {"-o", "--output"}, or {"OLD"} for an argument
  std::string type;                // "MxNxK", "1d|2d"; empty for a flag
  std::string about;               // with its default at the end
  std::string group;
  bool is_argument = false;
  bool is_required = false;
  bool is_repeatable = false;
};

struct CommandText {
  std::string name;  // "gemm"
  std::string path;  // "octet bench gemm"
  std::string about;
  std::string group;  // among the commands of its parent
  bool is_root = false;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  bool needs_command = false;
  std::vector<std::string> examples;
};

CommandText command_text(const CLI::App& app);

// Prints the help of `octet` and of all its commands through help_text(). Called before they are
// added.
void use_help_text(CLI::App& octet);

// "octet bench gemm"
std::string command_path(const CLI::App& app);
// The command whose words were read last: `octet bench gemm` for any command line of it.
const CLI::App& innermost_given(const CLI::App& octet);
// Explains a parse error of CLI11 in one line.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace octet::tool
