// octet completions: completions of commands, options and their values for bash, zsh and fish. All
// three find the command by walking the words so far, then offer what it takes there.
#include "tool/options/command_text.hpp"
#include "tool/options/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

namespace octet::tool {
namespace {

// What completes the value of an option.
struct Values {
  std::vector<std::string> choices;
  bool files = false;
};

// From its type: "fp8|bf16" and "cpu|cuda[:i]" list the choices, "quick|FILE.csv", "DIR" and
// "RESULTS" take a path, "MxNxK" is free text.
Values values_of(const std::string& type) {
  Values values;
  std::istringstream parts(type);
  for (std::string part; std::getline(parts, part, '|');) {
    if (part == kPath || part == "DIR" || part == "RESULTS" || part.rfind("FILE", 0) == 0) {
      values.files = true;
    }
    part = part.substr(0, part.find('['));
    const bool is_word = std::all_of(part.begin(), part.end(), [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
    });
    if (is_word && !part.empty()) values.choices.push_back(part);
  }
  return values;
}

bool takes_value(const OptionText& option) { return !option.is_argument && !option.type.empty(); }

// What completes the arguments of a command.
Values arguments_of(const CommandText& command) {
  Values values;
  for (const OptionText& option : command.options) {
    if (option.is_argument) values = values_of(option.type);
  }
  return values;
}

// The command and all below it.
std::vector<CommandText> all_commands(const CommandText& command) {
  std::vector<CommandText> all{command};
  for (const CommandText& below : command.commands) {
    for (CommandText& one : all_commands(below)) all.push_back(std::move(one));
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// "'octet bench'|'octet bench gemm'", for a case of the shell.
std::string paths_below(const std::vector<CommandText>& commands, const char* separator) {
  std::vector<std::string> paths;
  for (const CommandText& command : commands) {
    if (!command.is_root) paths.push_back("'" + command.path + "'");
  }
  return fmt::format("{}", fmt::join(paths, separator));
}

// "'octet bench gemm --dtype'", and the same with its other names.
std::string option_patterns(const CommandText& command, const OptionText& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) {
    patterns.push_back(fmt::format("'{} {}'", command.path, name));
  }
  return fmt::format("{}", fmt::join(patterns, "|"));
}

std::string bash_offer(const Values& values) {
  std::string text;
  if (!values.choices.empty()) {
    text += fmt::format(" mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\");",
                        joined(values.choices));
  }
  if (values.files) {
    text +=
        " compopt -o filenames 2>/dev/null;"
        " mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\");";
  }
  return text;
}

// The cases, of bash and of zsh, of the options that take a value: what `offer` makes of its values.
std::string value_cases(const std::vector<CommandText>& commands,
                        std::string (*offer)(const Values&)) {
  std::string cases;
  for (const CommandText& command : commands) {
    for (const OptionText& option : command.options) {
      if (!takes_value(option)) continue;
      cases += fmt::format("    {}){} return ;;\n", option_patterns(command, option),
                           offer(values_of(option.type)));
    }
  }
  return cases;
}

std::string bash_completions(const std::vector<CommandText>& commands) {
  std::string script = R"(# bash completions of octet, printed by: octet completions bash
_octet() {
  local IFS=$' \t\n' command=octet word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i
  COMPREPLY=()
  # bash splits --dtype=fp8 at the equals sign.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
      )" + paths_below(commands, "|") +
                       R"() command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $before" in
)";
  script += value_cases(commands, bash_offer);
  script += "  esac\n  case \"$command\" in\n";
  for (const CommandText& command : commands) {
    std::vector<std::string> options;
    std::vector<std::string> names;
    for (const OptionText& option : command.options) {
      if (!option.is_argument)
        options.insert(options.end(), option.names.begin(), option.names.end());
    }
    for (const CommandText& below : command.commands) names.push_back(below.name);
    Values arguments = arguments_of(command);
    arguments.choices.insert(arguments.choices.end(), names.begin(), names.end());
    script += fmt::format("    '{}')\n      if [[ $word == -* ]]; then{} :; else{} :; fi ;;\n",
                          command.path, bash_offer({options, false}), bash_offer(arguments));
  }
  return script + "  esac\n}\ncomplete -F _octet octet\n";
}

// In single quotes, for zsh and fish. `quote` is how a quote is written within them.
std::string quoted(const std::string& text, const char* quote) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'') {
      result += quote;
    } else if (letter == '\\') {
      result += "\\\\";
    } else {
      result += letter;
    }
  }
  return "'" + result + "'";
}

// The first sentence, which is what fits beside a name.
std::string first_sentence(const std::string& about) {
  const std::size_t end = std::min({about.find(". "), about.find(" [default")});
  std::string text = about.substr(0, end);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

std::string zsh_offer(const Values& values) {
  std::string text;
  if (!values.choices.empty()) text += fmt::format(" compadd -- {};", joined(values.choices));
  if (values.files) text += " _files;";
  return text;
}

// "'--dtype:Precision of the products'", for _describe.
std::string zsh_item(const std::string& name, const std::string& about) {
  return quoted(fmt::format("{}:{}", name, first_sentence(about)), "'\\''");
}

std::string zsh_completions(const std::vector<CommandText>& commands) {
  std::string script = R"(#compdef octet
# zsh completions of octet, printed by: octet completions zsh
_octet() {
  local command=octet before=${words[CURRENT - 1]}
  local -a octet_options octet_commands  # options and commands are zsh's own
  integer i
  if [[ ${words[CURRENT]} == --*=* ]]; then
    before=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  for ((i = 2; i < CURRENT; ++i)); do
    case "$command ${words[i]}" in
      )" + paths_below(commands, "|") +
                       R"() command+=" ${words[i]}" ;;
    esac
  done
  case "$command $before" in
)";
  script += value_cases(commands, zsh_offer);
  script += "  esac\n  case \"$command\" in\n";
  for (const CommandText& command : commands) {
    script += fmt::format("    '{}')\n      octet_options=(", command.path);
    for (const OptionText& option : command.options) {
      if (option.is_argument) continue;
      for (const std::string& name : option.names) {
        script += "\n        " + zsh_item(name, option.about);
      }
    }
    script += ")\n      octet_commands=(";
    for (const CommandText& below : command.commands) {
      script += "\n        " + zsh_item(below.name, below.about);
    }
    script += ")\n";
    const std::string arguments = zsh_offer(arguments_of(command));
    if (!arguments.empty()) {
      script += fmt::format("      if [[ $PREFIX != -* ]]; then{} fi\n", arguments);
    }
    script += "      ;;\n";
  }
  return script + R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option octet_options
  elif (( $#octet_commands )); then
    _describe command octet_commands
  fi
}
if [[ ${funcstack[1]} == _octet ]]; then
  _octet "$@"
else
  compdef _octet octet  # sourced
fi
)";
}

std::string fish_offer(const Values& values, const std::string& flag) {
  std::string text = flag;
  text += values.files ? " -F" : " -f";
  if (!values.choices.empty()) text += " -a " + quoted(joined(values.choices), "\\'");
  return text;
}

std::string fish_completions(const std::vector<CommandText>& commands) {
  std::string script = R"(# fish completions of octet, printed by: octet completions fish
function __octet_command
    set -l command octet
    for word in (commandline -opc)[2..-1]
        if contains -- "$command $word" )" +
                       paths_below(commands, " ") + R"(
            set command "$command $word"
        end
    end
    echo $command
end
complete -c octet -f
)";
  for (const CommandText& command : commands) {
    const std::string begin =
        fmt::format("complete -c octet -n 'test (__octet_command) = \"{}\"'", command.path);
    for (const CommandText& below : command.commands) {
      script += fmt::format("{} -a {} -d {}\n", begin, below.name,
                            quoted(first_sentence(below.about), "\\'"));
    }
    const Values arguments = arguments_of(command);
    if (arguments.files || !arguments.choices.empty())
      script += begin + fish_offer(arguments, "") + "\n";
    for (const OptionText& option : command.options) {
      if (option.is_argument) continue;
      script += begin;
      for (const std::string& name : option.names) {
        script += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (takes_value(option)) script += fish_offer(values_of(option.type), " -r");
      script += fmt::format(" -d {}\n", quoted(first_sentence(option.about), "\\'"));
    }
  }
  return script;
}

}  // namespace

void add_completions(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "completions", "Print completions for a shell.");
  const auto shell = std::make_shared<std::string>();
  add_choice_argument(app, "SHELL", *shell, {"bash", "zsh", "fish"},
                      "The shell: bash, zsh or fish.");
  add_examples(app, {"source <(octet completions bash)",
                     "octet completions fish > ~/.config/fish/completions/octet.fish"});
  choose_when_given(app, chosen, [&octet, shell] {
    const std::vector<CommandText> commands = all_commands(command_text(octet));
    fmt::print("{}", *shell == "bash"  ? bash_completions(commands)
                     : *shell == "zsh" ? zsh_completions(commands)
                                       : fish_completions(commands));
    return 0;
  });
}

}  // namespace octet::tool
