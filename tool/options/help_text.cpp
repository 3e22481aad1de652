#include "tool/options/help_text.hpp"

#include "tool/options/parse.hpp"

#include "bench/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace octet::tool {
namespace {

// The titles in the order in which they first appear.
template <class Item>
std::vector<std::string> titles_of(const std::vector<Item>& items) {
  std::vector<std::string> titles;
  for (const Item& item : items) {
    if (std::find(titles.begin(), titles.end(), item.group) == titles.end()) {
      titles.push_back(item.group);
    }
  }
  return titles;
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent) {
  std::string result;
  const std::size_t width = columns - indent;
  std::size_t length = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "[default:") {  // not torn apart if it fits on a line
      std::string rest;
      std::getline(words, rest);
      if (word.size() + rest.size() <= width) {
        word += rest;
      } else {
        words = std::istringstream(rest);
      }
    }
    if (std::string bound; (word == ">" || word == "<=") && words >> bound) word += " " + bound;
    if (length > 0 && length + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      length = 0;
    } else if (length > 0) {
      result += ' ';
      ++length;
    }
    result += word;
    length += word.size();
  }
  return result;
}

std::string option_usage(const OptionText& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.is_argument && !option.type.empty()) text += " " + option.type;
  return text;
}

std::string lists_text(const std::vector<HelpList>& lists, std::size_t columns) {
  constexpr std::size_t kIndent = 2;
  constexpr std::size_t kWidest = 24;  // a longer name has its text on the next line
  std::size_t widest = 0;
  for (const HelpList& list : lists) {
    for (const HelpEntry& entry : list.entries) {
      if (entry.name.size() <= kWidest) widest = std::max(widest, entry.name.size());
    }
  }
  const std::size_t left = kIndent + widest + 2;
  std::string result;
  for (const HelpList& list : lists) {
    result += "\n" + list.title + ":\n";
    for (const HelpEntry& entry : list.entries) {
      const std::string name = std::string(kIndent, ' ') + entry.name;
      result += entry.name.size() <= widest ? fmt::format("{:<{}}", name, left)
                                            : name + "\n" + std::string(left, ' ');
      result += wrapped(entry.about, columns, left) + "\n";
    }
  }
  return result;
}

std::vector<OptionSection> option_sections(const CommandText& command) {
  OptionSection arguments{"Arguments", {}};
  std::vector<OptionSection> grouped;
  OptionSection others{kNoGroup, {}};
  for (const std::string& title : titles_of(command.options)) {
    OptionSection section{title, {}};
    for (const OptionText& option : command.options) {
      if (option.group != title) continue;
      (option.is_argument ? arguments : section).options.push_back(option);
    }
    if (title == kNoGroup) {
      others.options = section.options;
      std::stable_partition(others.options.begin(), others.options.end(),
                            [](const OptionText& one) {
                              return one.names.back() != "--help";  // to the end
                            });
    } else if (!section.options.empty()) {
      grouped.push_back(section);
    }
  }
  if (!grouped.empty()) others.title = "Other";
  grouped.push_back(others);
  if (!arguments.options.empty()) grouped.insert(grouped.begin(), arguments);
  return grouped;
}

std::string usage_text(const CommandText& command) {
  std::string result = command.path + " [OPTIONS]";
  for (const OptionText& option : command.options) {
    if (option.is_required) {
      result += " " + option_usage(option);
    } else if (option.is_argument) {
      result += " [" + option.names.front() + "]";
    }
  }
  if (!command.commands.empty()) result += command.needs_command ? " COMMAND" : " [COMMAND]";
  return result;
}

std::size_t help_columns() {
  constexpr std::size_t kUsual = 80;
  constexpr std::size_t kFewest = 60;
  constexpr std::size_t kMost = 100;
  const std::size_t width = bench::stdout_width();
  return std::clamp(width == 0 ? kUsual : width, kFewest, kMost);
}

std::vector<HelpList> general_notes() {
  return {
      {"Exit status",
       {{"0", "Success."},
        {fmt::to_string(kExitFailed),
         "A gate failed, a case could not be run, or octet compare found a regression."},
        {fmt::to_string(kExitUsage),
         "The command line is wrong, asks for what this machine or build does not have, or "
         "compares runs whose settings differ."},
        {"128 + N", "Stopped by signal N; rerun the same command to continue."}}},
      {"Environment",
       {{"OCTET_NUM_THREADS", "CPU threads of a run without --threads. [default: one per core]"},
        {"OCTET_<OP>_BACKEND",
         "Implementation of an operator, such as OCTET_GEMM_BACKEND=cpu_reference."},
        {"OCTET_CUDNN_DIR",
         "Folder of libcudnn.so.9, for attention. [default: where the loader finds it]"},
        {"OCTET_LOG",
         "With the value dispatch, every plan reports on stderr which implementation it takes; "
         "with "
         "calls, its problem."},
        {"OCTET_TUNING_TABLE", "What octet tune found, for every program that uses octet."},
        {"OCTET_TUNING_STORE",
         "The store of octet tune. [default: octet/tuning.sqlite, beside the history]"},
        {"OCTET_AUTO_TUNE", "With the value 1, octet bench tunes what the store does not have."},
        {"OCTET_HISTORY",
         "File to which every benchmark adds its rows; none keeps no history. [default: "
         "octet/history.sqlite in XDG_STATE_HOME, or in .local/state of HOME]"},
        {"PATH", "Where octet profile looks for ncu."},
        {"CUDA_VISIBLE_DEVICES", "GPUs that octet may use, as in every CUDA program."},
        {"NO_COLOR", "If not empty, no colours on a terminal."},
        {"COLUMNS", "Width of the output. [default: that of the terminal]"}}},
      {"Documentation",
       {{"octet COMMAND --help", "Options and examples of a command."},
        {"octet manual", "All of it as a manual page: octet manual | man -l -"},
        {"docs/", "In the sources: benchmarking, reporting, gates, numerics."}}}};
}

std::string help_text(const CommandText& command, std::size_t columns) {
  std::vector<HelpList> lists;
  for (const std::string& title : titles_of(command.commands)) {
    lists.push_back({title, {}});
    for (const CommandText& one : command.commands) {
      if (one.group == title) lists.back().entries.push_back({one.name, one.about});
    }
  }
  for (const OptionSection& section : option_sections(command)) {
    lists.push_back({section.title, {}});
    for (const OptionText& option : section.options) {
      lists.back().entries.push_back({option_usage(option), option.about});
    }
  }
  std::string result =
      fmt::format("{}\n\nUsage: {}\n", wrapped(command.about, columns), usage_text(command));
  result += lists_text(lists, columns);
  if (!command.examples.empty()) result += "\nExamples:\n";
  for (const std::string& example : command.examples) result += "  " + example + "\n";
  if (command.is_root) result += lists_text(general_notes(), columns);
  return result;
}

}  // namespace octet::tool
