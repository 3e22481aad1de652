// What octet says of itself: help, manual and completions. They are read from the tables of options,
// so these tests walk all commands and need no list of them.
#include "run_tool.hpp"

#include "tool/options/command_text.hpp"
#include "tool/options/help_text.hpp"
#include "tool/options/options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace octet::tool {
namespace {

std::vector<CommandText> with_all_below(const CommandText& command) {
  std::vector<CommandText> all{command};
  for (const CommandText& below : command.commands) {
    for (const CommandText& one : with_all_below(below)) all.push_back(one);
  }
  return all;
}

// All commands of octet.
std::vector<CommandText> all_commands() {
  CLI::App octet("About octet.", "octet");
  Chosen chosen;
  add_commands(octet, chosen);
  return with_all_below(command_text(octet));
}

std::string without_octet(const std::string& command) {
  return command == "octet" ? "" : command.substr(std::string("octet ").size());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "Whole sentences. [default: 20]"
bool is_sentence(const std::string& about) {
  static const std::regex wanted(R"([A-Z][^]*\.( \[default: [^\]]+\])?)");
  return std::regex_match(about, wanted);
}

std::string label(const OptionText& option) {
  return fmt::format("{}", fmt::join(option.names, ","));
}

TEST(Help, OfEveryCommandFitsTheTerminalAndHasTwoExamples) {
  for (const CommandText& command : all_commands()) {
    for (const int columns : {80, 100}) {
      const Outcome outcome =
          run_tool(without_octet(command.path) + " --help", fmt::format("COLUMNS={}", columns));
      SCOPED_TRACE(command.path);
      EXPECT_EQ(outcome.status, 0);
      EXPECT_EQ(outcome.err, "");
      EXPECT_NE(outcome.out.find("Usage: " + command.path), std::string::npos) << outcome.out;
      EXPECT_EQ(outcome.out.find("..."), std::string::npos) << outcome.out;
      for (const std::string& line : lines_of(outcome.out)) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
      }
    }
    EXPECT_GE(command.examples.size(), 2u) << command.path;
  }
}

TEST(Help, TextsAreSentencesWithTheDefaultAtTheEnd) {
  for (const CommandText& command : all_commands()) {
    EXPECT_TRUE(is_sentence(command.about)) << command.path << ": " << command.about;
    for (const OptionText& option : command.options) {
      EXPECT_TRUE(is_sentence(option.about))
          << command.path << " " << label(option) << ": " << option.about;
    }
  }
}

TEST(Help, SaysWhichOptionsMayBeRepeated) {
  for (const CommandText& command : all_commands()) {
    for (const OptionText& option : command.options) {
      EXPECT_EQ(option.about.find("Repeat it for") != std::string::npos, option.is_repeatable)
          << command.path << " " << label(option) << ": " << option.about;
    }
  }
}

TEST(Help, GroupsTheOptionsOfEveryOperator) {
  for (const CommandText& command : all_commands()) {
    if (command.options.size() < 10) continue;
    const std::vector<OptionSection> sections = option_sections(command);
    EXPECT_GE(sections.size(), 4u) << command.path;
    for (const OptionSection& section : sections) {
      EXPECT_LE(section.options.size(), 14u) << command.path << ": " << section.title;
    }
    ASSERT_EQ(sections.back().title, "Other") << command.path;
    EXPECT_EQ(label(sections.back().options.back()), "-h,--help") << command.path;
  }
}

// Parses every example; the cases that one of octet bench names are planned, but not run.
TEST(Help, ExamplesAreCommandsThatOctetTakes) {
  for (const CommandText& command : all_commands()) {
    for (const std::string& example : command.examples) {
      SCOPED_TRACE(example);
      static const std::regex call(R"(^(?:source <\()?octet ([^>|)]*))");
      std::smatch words;
      ASSERT_TRUE(std::regex_search(example, words, call));
      if (example.find("--explain") != std::string::npos) continue;  // prints and exits; run below
      CLI::App octet("About octet.", "octet");
      Chosen chosen;
      add_commands(octet, chosen);
      ASSERT_NO_THROW(octet.parse(words[1].str()));
      EXPECT_TRUE(chosen.run);
      EXPECT_EQ(command_path(innermost_given(octet)).rfind(command.path, 0), 0u);
      if (chosen.cases) {
        EXPECT_FALSE(chosen.cases().empty());
      }
    }
  }
}

TEST(Help, ExamplesOfCheckPass) {
  for (const CommandText& command : all_commands()) {
    if (command.path.rfind("octet check ", 0) != 0) continue;
    for (const std::string& example : command.examples) {
      const Outcome outcome = run_tool(without_octet(example) + " --device cpu");
      EXPECT_EQ(outcome.status, 0) << example << "\n" << outcome.out << outcome.err;
    }
  }
}

TEST(Help, WrapsBetweenWordsAndKeepsADefaultTogether) {
  EXPECT_EQ(wrapped("one two three. [default: a b]", 16, 2), "one two three.\n  [default: a b]");
  EXPECT_EQ(wrapped("one [default: a far longer one]", 16), "one [default: a\nfar longer one]");
}

TEST(Help, OfOctetNamesTheStatusesAndEveryVariableThatIsRead) {
  const std::string help = run_tool("--help", "COLUMNS=100").out;
  for (const char* wanted : {"Measure:", "Read results:", "This machine:", "Exit status:",
                             "Environment:", "Examples:", "OCTET_<OP>_BACKEND", "128 + N"}) {
    EXPECT_NE(help.find(wanted), std::string::npos) << wanted << "\n" << help;
  }
  // HOME and TERM are not ours to explain.
  static const std::regex reads("(?:getenv|environment)\\(\"([A-Z_]+)\"\\)");
  std::set<std::string> variables;
  for (const char* folder : {"src", "tool"}) {
    const std::filesystem::path root = std::filesystem::path(OCTET_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator found(text.begin(), text.end(), reads), end; found != end;
           ++found) {
        variables.insert((*found)[1]);
      }
    }
  }
  EXPECT_TRUE(variables.count("OCTET_HISTORY")) << "the pattern finds none";
  variables.erase("TERM");
  for (const std::string& variable : variables) {
    EXPECT_NE(help.find(variable), std::string::npos) << variable;
  }
}

TEST(Help, VersionNamesCommitAndCuda) {
  const Outcome outcome = run_tool("--version");
  EXPECT_EQ(outcome.status, 0);
  static const std::regex wanted(R"(octet \d+\.\d+\.\d+ \(.+\), built with(out)? CUDA\n)");
  EXPECT_TRUE(std::regex_match(outcome.out, wanted)) << outcome.out;
}

TEST(Manual, HasEveryOptionOfEveryCommand) {
  const Outcome outcome = run_tool("manual");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind(".TH OCTET 1 ", 0), 0u);
  const std::string plain = std::regex_replace(outcome.out, std::regex(R"(\\-)"), "-");
  for (const CommandText& command : all_commands()) {
    std::size_t at = command.is_root ? 0 : plain.find(".SS " + command.path + "\n");
    ASSERT_NE(at, std::string::npos) << command.path;
    const std::size_t end =
        command.is_root ? plain.find(".SH COMMANDS") : plain.find("\n.S", at + 1);
    for (const OptionText& option : command.options) {
      const std::size_t found = plain.find(".TP\n.B " + option_usage(option) + "\n", at);
      EXPECT_LT(found, end) << command.path << " " << label(option);
    }
    for (const std::string& example : command.examples) {
      EXPECT_LT(plain.find(example.substr(0, example.find('~')), at), end) << example;
    }
  }
}

TEST(Manual, IsCleanForGroff) {
  if (std::system("command -v groff >/dev/null 2>&1") != 0) GTEST_SKIP() << "no groff";
  const Folder folder;
  const std::string command = tool_path() + " manual | groff -man -Tascii -ww >" +
                              folder.file("page") + " 2>" + folder.file("warnings");
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(folder.file("warnings")), "");
  EXPECT_NE(read_file(folder.file("page")).find("--shape"), std::string::npos);
}

// What bash offers for the last of `words`, after `source <(octet completions bash)`.
std::vector<std::string> bash_offers(const std::string& words, const std::string& folder = ".") {
  const Folder scratch;
  std::ofstream(scratch.file("ask.sh"))
      << "source <(" << tool_path() << " completions bash) || exit 1\n"
      << "cd " << folder << "\nCOMP_WORDS=(" << words << ")\n"
      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_octet\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const std::string command = "bash --norc " + scratch.file("ask.sh") + " >" + scratch.file("out");
  EXPECT_EQ(std::system(command.c_str()), 0);
  return lines_of(read_file(scratch.file("out")));
}

TEST(Completions, OfBashCompleteCommandsOptionsValuesAndFiles) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(bash_offers("octet ben"), Words{"bench"});
  EXPECT_EQ(bash_offers("octet bench rms-norm-"), Words{"rms-norm-rope"});
  EXPECT_EQ(bash_offers("octet bench gemm --dtype ''"), (Words{"fp8", "bf16", "f16", "f32"}));
  EXPECT_EQ(bash_offers("octet bench gemm --dtype = b"), Words{"bf16"});
  EXPECT_EQ(bash_offers("octet check gemm --seed 7 --dev"), Words{"--device"});
  EXPECT_EQ(bash_offers("octet check gemm --device c"), (Words{"cpu", "cuda"}));
  EXPECT_EQ(bash_offers("octet bench gemm --shape ''"), Words{""});
  EXPECT_EQ(bash_offers("octet bench gemm --suite qu"), Words{"quick"});
  EXPECT_EQ(bash_offers("octet completions z"), Words{"zsh"});
  const Folder folder;
  std::ofstream(folder.file("two words.csv")) << "";
  EXPECT_EQ(bash_offers("octet bench gemm -o two", folder.path().string()), Words{"two words.csv"});
  EXPECT_EQ(bash_offers("octet bench gemm --model tw", folder.path().string()),
            Words{"two words.csv"});
  EXPECT_EQ(bash_offers("octet summarize tw", folder.path().string()), Words{"two words.csv"});
}

TEST(Completions, HaveEveryOptionForEveryShell) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run_tool("completions " + shell);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const CommandText& command : all_commands()) {
      for (const OptionText& option : command.options) {
        if (option.is_argument) continue;
        const std::string& name = option.names.back();
        const std::string wanted = shell != "fish"            ? name
                                   : name.rfind("--", 0) == 0 ? " -l " + name.substr(2) + " "
                                                              : " -s " + name.substr(1) + " ";
        const std::size_t at = outcome.out.find(command.path);
        EXPECT_NE(outcome.out.find(wanted, at), std::string::npos) << shell << " " << command.path;
      }
    }
    if (std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) != 0) continue;
    const Folder folder;
    std::ofstream(folder.file("script")) << outcome.out;
    EXPECT_EQ(std::system((shell + " -n " + folder.file("script")).c_str()), 0) << shell;
  }
}

TEST(Completions, AreOfAKnownShell) {
  const Outcome outcome = run_tool("completions csh");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("SHELL must be one of bash, zsh, fish, got \"csh\""),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace octet::tool
