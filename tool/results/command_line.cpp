#include "tool/results/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <utility>
#include <vector>

namespace octet::tool {
namespace {

using Words = std::vector<std::string>;
using Options = std::vector<std::string_view>;

// Options that say where, for how long and on which data a case was run.
const Options kHowItWasRun{"--device", "--threads", "--seed",
                           "--warmup", "--iters",   "--seconds-per-case"};

// Other options that do not define the problem.
const Options kNoProblem{"--backend", "--quantize-backend", "--baseline", "--shape", "-o"};

// No two of these options share a value for any operator, so the value alone identifies the option.
const Options kKnownByValue{"--dtype",        "--granularity", "--format",
                            "--wgrad-blocks", "--activation",  "--norm"};

bool is_in(const Options& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// A negative number is a value: --scale -0.5.
bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_of("0123456789.", 1) != 1;
}

std::string without_dashes(const std::string& option) {
  return option.substr(option.rfind("--", 0) == 0 ? 2 : 1);
}

// As a shell splits them, but with the quotes left in: joined() gives the command again.
Words words_of(const std::string& command) {
  Words words;
  std::string word;
  bool quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char letter = command[i];
    if (!quoted && std::isspace(static_cast<unsigned char>(letter)) != 0) {
      if (!word.empty()) words.push_back(std::exchange(word, {}));
      continue;
    }
    word += letter;
    if (letter == '\'') quoted = !quoted;
    if (letter == '\\' && !quoted && i + 1 < command.size()) word += command[++i];
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

std::string joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

// The words without these options and their values.
Words without(const Words& words, const Options& options) {
  Words kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_in(options, words[i])) {
      ++i;
    } else {
      kept.push_back(words[i]);
    }
  }
  return kept;
}

}  // namespace

std::string operator_of(const std::string& command) {
  std::string before_last;
  std::string last;
  for (const std::string& word : words_of(command)) {
    if (last == "--op" || (before_last == "octet" && last == "bench")) return word;
    before_last = last;
    last = word;
  }
  return {};
}

namespace {

std::array<std::string, 2> blocks_of(const std::string& command) {
  return {option_of(command, "--block"), option_of(command, "--transposed-block")};
}
bool is_mx(const std::string& block) { return block == "1x32" || block == "32x32"; }
bool is_whole(const std::string& block) { return block.find("all") != std::string::npos; }

// Blocks of 128 have the kernels of "quantize"; whole lines, 128x1 and mx have their own.
std::string digest_of_cast(const std::string& command) {
  if (has_option(command, "--fold-mx")) return "quantize_mx";
  // Of tools/peers.py.
  const std::string granularity = option_of(command, "--granularity");
  if (granularity == "rowwise" || granularity == "tensorwise") return "quantize_lines";
  for (const std::string& block : blocks_of(command)) {
    if (is_mx(block)) return "quantize_mx";
    if (block == "128x1" || is_whole(block)) return "quantize_lines";
  }
  return has_option(command, "--given-scales") ? "quantize_lines" : "quantize";
}

// Whether one of a row's configurations has one of these texts.
bool has_one_of(const std::string& configuration, std::initializer_list<std::string_view> texts) {
  return std::ranges::any_of(
      texts, [&](std::string_view text) { return configuration.find(text) != std::string::npos; });
}

// The tiles of kSm90NarrowConfigs, which have kernels of their own.
bool has_narrow_tile(const std::string& configuration) {
  return has_one_of(configuration, {"128x192x4 1x128.128x128", "128x160x5 1x128.128x128",
                                    "64x128x8 1x128.1x128", "64x64x10 1x128.1x128"});
}

// 16-bit tiles that are run by name, from kernels of their own: kSm90WideConfigs, and all widths over rows.
bool has_tile_by_name16(const std::string& configuration) {
  return has_one_of(configuration, {"128x256x4 bf16.bf16 k.k cluster",
                                    "128x256x4 f16.f16 k.k cluster", "or narrower"});
}

// FP8 outputs with scales of whole lines have kernels of their own, or are cast apart, as mx blocks are.
bool has_lines(const std::string& command) {
  const auto blocks = blocks_of(command);
  return std::any_of(blocks.begin(), blocks.end(),
                     [](const std::string& block) { return is_mx(block) || is_whole(block); });
}

}  // namespace

std::string digest_of(const std::string& command, const std::string& configuration) {
  const std::string op = operator_of(command);
  const std::string granularity = option_of(command, "--granularity");
  const std::string dtype = option_of(command, "--dtype");
  const bool is_product = op == "gemm" || op == "grouped-gemm";
  if (is_product || op == "gated-mlp" || op == "linear-cross-entropy") {
    const std::string layer = op == "gemm" ? "fp8_linear" : op;
    if (dtype == "bf16" || dtype == "f16") {
      return op + "_" + (is_product && has_tile_by_name16(configuration) ? "by_name16" : dtype);
    }
    if (granularity == "tensorwise" || granularity == "rowwise") {
      return layer + (has_option(command, "--fast-accumulation") ? "_fast" : "_whole");
    }
    if (granularity == "mxfp8") return layer + "_mx";
    if (op != "grouped-gemm" && has_narrow_tile(configuration)) return op + "_narrow";
  }
  const bool both = op == "quantize" || op == "gated-activation";
  const bool experts = has_option(command, "--groups") || has_option(command, "--batch");
  if (both && experts) return op + "_experts";
  if (has_option(command, "--fp8") && has_lines(command)) return op + "_lines";
  return op == "quantize" ? digest_of_cast(command) : op;
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::string_view("_-./:=,+@%").find(letter) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string option_of(const std::string& command, std::string_view option) {
  const Words words = words_of(command);
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? std::string() : *(found + 1);
}

bool has_option(const std::string& command, std::string_view option) {
  const Words words = words_of(command);
  return std::find(words.begin(), words.end(), option) != words.end();
}

std::map<std::string, std::string> options_of(const std::string& command) {
  std::map<std::string, std::string> options;
  const Words words = words_of(command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option(words[i])) continue;
    const bool has_value = i + 1 < words.size() && !is_option(words[i + 1]);
    std::string& value = options[words[i]];
    if (has_value) value += (value.empty() ? "" : ",") + words[i + 1];
  }
  return options;
}

std::map<std::string, std::string> problem_options_of(
    const std::string& command, const std::vector<std::string_view>& said_elsewhere) {
  std::map<std::string, std::string> options = options_of(command);
  std::erase_if(options, [&](const auto& option) {
    return is_in(kHowItWasRun, option.first) || is_in(kNoProblem, option.first) ||
           is_in(said_elsewhere, option.first);
  });
  return options;
}

std::vector<std::string> environment_of(const std::string& command) {
  const Words words = words_of(command);
  const auto program = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.find('=') == std::string::npos;
  });
  return {words.begin(), program};
}

std::string other_options(const std::string& problem) {
  Words words = without(words_of(problem), {"--shape", "--dtype", "--device"});
  if (!words.empty()) words.erase(words.begin());  // the operator
  return joined(words);
}

std::string repeated_command(const std::string& command) {
  return joined(without(words_of(command), kHowItWasRun));
}

std::string without_tuning_table(const std::string& command) {
  Words words = words_of(command);
  std::erase_if(words, [](const std::string& word) { return word.starts_with(kTuningTable); });
  return joined(words);
}

std::string settings_of(const std::string& command) {
  Words words = without(without(words_of(command), kHowItWasRun), {"--shape", "--dtype"});
  // Variables of the environment may come before the three words octet bench OP.
  const auto octet = std::find(words.begin(), words.end(), "octet");
  words.erase(octet, octet + std::min<std::ptrdiff_t>(3, words.end() - octet));
  return joined(words);
}

std::string problem_of(const std::string& command,
                       const std::vector<std::string_view>& said_elsewhere) {
  const Words words = without(without(words_of(command), kHowItWasRun), said_elsewhere);
  Words asked;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option(words[i]) || is_in(kNoProblem, words[i])) continue;
    const bool has_value = i + 1 < words.size() && !is_option(words[i + 1]);
    if (!has_value) {
      asked.push_back(without_dashes(words[i]));
    } else if (is_in(kKnownByValue, words[i])) {
      asked.push_back(words[i + 1]);
    } else {
      asked.push_back(without_dashes(words[i]) + "=" + words[i + 1]);
    }
  }
  return joined(asked);
}

}  // namespace octet::tool
