// octet manual: the help of all commands as one manual page, in the roff of man(7).
#include "tool/options/help_text.hpp"
#include "tool/options/options.hpp"
#include "tool/results/provenance.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

// Text that roff prints as it is. A line must not begin with a dot or a quote, which are requests.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '\\': result += "\\e"; break;
      case '-': result += "\\-"; break;
      case '^': result += "\\(ha"; break;
      case '~': result += "\\(ti"; break;
      case '\'': result += "\\(aq"; break;
      default: result += letter;
    }
  }
  return result.rfind('.', 0) == 0 ? "\\&" + result : result;
}

// An indented paragraph under a bold name.
std::string item(const std::string& name, const std::string& about) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(name), escaped(about));
}

std::string examples(const CommandText& command) {
  if (command.examples.empty()) return "";
  std::string result = ".PP\nExamples:\n.PP\n.nf\n.RS\n";
  for (const std::string& example : command.examples) result += escaped(example) + "\n";
  return result + ".RE\n.fi\n";
}

std::string options(const CommandText& command) {
  std::string result;
  for (const OptionSection& section : option_sections(command)) {
    result += fmt::format(".PP\n{}:\n", escaped(section.title));
    for (const OptionText& option : section.options) {
      result += item(option_usage(option), option.about);
    }
  }
  return result;
}

// The command and all below it.
std::string commands(const CommandText& command) {
  std::string result;
  if (!command.is_root) {
    result += fmt::format(".SS {}\n{}\n.PP\n.B {}\n", escaped(command.path), escaped(command.about),
                          escaped(usage_text(command)));
    result += options(command) + examples(command);
  }
  for (const CommandText& below : command.commands) result += commands(below);
  return result;
}

std::string capitals(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

std::string manual_page(const CommandText& octet) {
  std::string page =
      fmt::format(".TH OCTET 1 \"\" \"{}\" \"User Commands\"\n", escaped(version_text()));
  page += ".SH NAME\noctet \\- benchmark and check FP8 training operators\n";
  page += fmt::format(".SH SYNOPSIS\n.B {}\n", escaped(usage_text(octet)));
  page += fmt::format(".SH DESCRIPTION\n{}\n", escaped(octet.about));
  page += options(octet) + examples(octet);
  page += ".SH COMMANDS\n" + commands(octet);
  for (const HelpList& list : general_notes()) {
    page += fmt::format(".SH {}\n", capitals(list.title));
    for (const HelpEntry& entry : list.entries) page += item(entry.name, entry.about);
  }
  return page;
}

}  // namespace

void add_manual(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "manual", "Print the manual page, octet(1), in roff.");
  add_examples(app, {"octet manual | man -l -", "octet manual > octet.1"});
  choose_when_given(app, chosen, [&octet] {
    fmt::print("{}", manual_page(command_text(octet)));
    return 0;
  });
}

}  // namespace octet::tool
