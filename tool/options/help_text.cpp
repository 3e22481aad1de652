#include "tool/options/help_text.hpp"

#include "tool/options/parse.hpp"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace octet::tool {
namespace {

// The text in lines of at most `width`, all but the first behind `indent` blanks. A longer word has
// a line of its own. "[default: 1x128]" is not torn apart.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t length = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "[default:") {
      std::string rest;
      std::getline(words, rest);
      if (word.size() + rest.size() <= width) {
        word += rest;
      } else {
        words = std::istringstream(rest);
      }
    }
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

struct Entry {
  std::string name;
  std::string about;
};

// Names on the left, texts on the right. A long name has its text on the next line.
std::string list_text(const std::string& title, const std::vector<Entry>& entries,
                      std::size_t columns) {
  constexpr std::size_t kIndent = 2;
  constexpr std::size_t kWidestName = 26;
  std::size_t widest = 0;
  for (const Entry& entry : entries) {
    if (entry.name.size() <= kWidestName) widest = std::max(widest, entry.name.size());
  }
  const std::size_t left = kIndent + std::max<std::size_t>(widest, 8) + 2;
  std::string result = fmt::format("\n{}:\n", title);
  for (const Entry& entry : entries) {
    const std::string name = std::string(kIndent, ' ') + entry.name;
    result += name.size() + 2 <= left ? fmt::format("{:<{}}", name, left)
                                      : name + "\n" + std::string(left, ' ');
    result += wrapped(entry.about, columns - left, left) + "\n";
  }
  return result;
}

Entry option_entry(const OptionText& option) {
  std::string name = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.is_argument && !option.type.empty()) name += " " + option.type;
  return {name, option.about};
}

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
    if (!option.is_argument) continue;
    const std::string& name = option.names.front();
    result += option.is_required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) result += command.needs_command ? " COMMAND" : " [COMMAND]";
  return result;
}

std::size_t help_columns() {
  constexpr std::size_t kUsual = 80;
  constexpr std::size_t kFewest = 60;
  constexpr std::size_t kMost = 100;
  std::int64_t columns = kUsual;
  winsize size{};
  if (const char* given = std::getenv("COLUMNS");
      given != nullptr && parse_whole(given, 1, 10'000, columns)) {
  } else if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  }
  return std::clamp<std::size_t>(static_cast<std::size_t>(columns), kFewest, kMost);
}

std::string help_text(const CommandText& command, std::size_t columns) {
  std::string result =
      wrapped(command.about, columns, 0) + "\n\nUsage: " + usage_text(command) + "\n";
  for (const std::string& title : titles_of(command.commands)) {
    std::vector<Entry> entries;
    for (const CommandText& one : command.commands) {
      if (one.group == title) entries.push_back({one.name, one.about});
    }
    result += list_text(title, entries, columns);
  }
  for (const OptionSection& section : option_sections(command)) {
    std::vector<Entry> entries;
    for (const OptionText& option : section.options) entries.push_back(option_entry(option));
    result += list_text(section.title, entries, columns);
  }
  if (!command.examples.empty()) result += "\nExamples:\n";
  for (const std::string& example : command.examples) result += "  " + example + "\n";
  return result;
}

}  // namespace octet::tool
