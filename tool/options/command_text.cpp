#include "tool/options/command_text.hpp"

#include "tool/options/help_text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace octet::tool {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Of options that may be given more than once, each time with one value.
bool is_repeatable(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.is_argument = option.get_positional();
  if (text.is_argument) text.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) text.type = option.get_type_name();
  text.about = option.get_description();
  text.group = option.get_group();
  text.is_required = option.get_required();
  text.is_repeatable = is_repeatable(option);
  return text;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// Edit distance: letters to insert, delete or replace to turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// "there is no --shpe; did you mean --shape?", or else with `otherwise` at its end.
std::string no_such(const std::string& given, const std::vector<std::string>& words,
                    const std::string& otherwise) {
  const auto nearest =
      std::min_element(words.begin(), words.end(), [&](const std::string& a, const std::string& b) {
        return distance(a, given) < distance(b, given);
      });
  const std::size_t letters = given.size() - std::min(given.size(), given.find_first_not_of('-'));
  const std::size_t most = std::min<std::size_t>(2, letters / 2);  // of a few letters, any is near
  const bool is_near = nearest != words.end() && distance(*nearest, given) <= most;
  return fmt::format("there is no {}; {}", given,
                     is_near ? fmt::format("did you mean {}?", *nearest) : otherwise);
}

std::string explain_unknown_option(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const OptionText text = option_text(*option);
    if (!text.is_argument && !is_hidden(*option))
      names.insert(names.end(), text.names.begin(), text.names.end());
  }
  return no_such(given.substr(0, given.find('=')), names,
                 command_path(app) + " --help lists the options");
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

// For a word that is no option.
std::string explain_unexpected(const CLI::App& app, const std::string& given) {
  const std::vector<std::string> commands = command_names(app);
  if (!commands.empty()) {
    return no_such(given, commands, fmt::format("there are: {}", fmt::join(commands, ", ")));
  }
  std::vector<std::string> arguments;
  std::vector<std::string> lists;  // the given options that could have meant this word too
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) arguments.push_back(option->get_name(true));
    if (is_repeatable(*option) && option->count() > 0) lists.push_back(option->get_name());
  }
  if (!arguments.empty()) {
    return fmt::format("\"{}\" is an argument too many; wanted {}", given,
                       fmt::join(arguments, " "));
  }
  if (lists.empty()) {
    return fmt::format("unexpected argument \"{}\"; {} --help lists the options", given,
                       command_path(app));
  }
  return fmt::format("unexpected argument \"{}\"; to give several values repeat {}", given,
                     fmt::join(lists, " or "));
}

}  // namespace

std::string command_path(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : command_path(*app.get_parent()) + " " + app.get_name();
}

CommandText command_text(const CLI::App& app) {
  CommandText text;
  text.name = app.get_name();
  text.path = command_path(app);
  text.about = app.get_description();
  text.group = app.get_group();
  text.is_root = app.get_parent() == nullptr;
  for (const CLI::Option* option : app.get_options()) {
    if (!is_hidden(*option)) text.options.push_back(option_text(*option));
  }
  for (const CLI::App* command : commands_of(app)) text.commands.push_back(command_text(*command));
  text.needs_command = app.get_require_subcommand_min() > 0;
  text.examples = lines_of(app.get_footer());
  return text;
}

void use_help_text(CLI::App& octet) {
  octet.set_help_flag("-h,--help", "Print this help.");
  octet.formatter_fn([](const CLI::App* app, const std::string&, CLI::AppFormatMode) {
    return help_text(command_text(*app), help_columns());
  });
}

const CLI::App& innermost_given(const CLI::App& octet) {
  const auto given = octet.get_subcommands();
  return given.empty() ? octet : innermost_given(*given.front());
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const bool unknown_word = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool missing_command = app.get_require_subcommand_min() > 0 &&
                               dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (unknown_word || missing_command) {
    const std::vector<std::string> rest = app.remaining(true);
    if (!rest.empty()) {
      const bool is_option = rest.front().rfind('-', 0) == 0;
      return is_option ? explain_unknown_option(app, rest.front())
                       : explain_unexpected(app, rest.front());
    }
  }
  if (missing_command) return fmt::format("wanted one of: {}", fmt::join(command_names(app), ", "));
  std::string line = error.what();
  // "OLD is required", "--iters: 1 required N missing"
  const std::string name = line.substr(0, line.find_first_of(" :"));
  if (const CLI::Option* option = app.get_option_no_throw(name); option != nullptr) {
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
      return fmt::format("{}: {}", line, option->get_description());
    }
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      return fmt::format("{} needs a value: {}", name, option->get_type_name());
    }
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace octet::tool
