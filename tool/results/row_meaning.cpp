#include "tool/results/row_meaning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <vector>

namespace octet::tool {
namespace {

// Options that say where, for how long and on which data a case was run.
constexpr std::array<std::string_view, 6> kHowItWasRun{
    "--device", "--threads", "--seed", "--warmup", "--iters", "--seconds-per-case"};

// Other options that do not say which problem it was.
constexpr std::array<std::string_view, 5> kNoProblem{"--backend", "--quantize-backend",
                                                     "--baseline", "--shape", "-o"};

// Of no operator do two of these have a value in common: the value says which it is.
constexpr std::array<std::string_view, 6> kKnownByValue{
    "--dtype", "--granularity", "--format", "--wgrad-blocks", "--activation", "--norm"};

template <std::size_t count>
bool is_in(const std::array<std::string_view, count>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string without_dashes(const std::string& option) {
  return option.substr(option.rfind("--", 0) == 0 ? 2 : 1);
}

// Without these options and their values.
template <std::size_t count>
std::vector<std::string> words_but(const std::vector<std::string>& words,
                                   const std::array<std::string_view, count>& options) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_in(options, words[i])) {
      ++i;
    } else {
      kept.push_back(words[i]);
    }
  }
  return kept;
}

// Of its command, without how it was run.
std::vector<std::string> words_of(const Record& record) {
  std::istringstream stream(record.at("Command"));
  return words_but({std::istream_iterator<std::string>(stream), {}}, kHowItWasRun);
}

}  // namespace

std::string operator_of(const Record& record) {
  std::istringstream words(record.at("Command"));
  std::string before_last;
  std::string last;
  for (std::string word; words >> word; before_last = last, last = word) {
    if (last == "--op" || (before_last == "octet" && last == "bench")) return word;
  }
  return {};
}

std::string device_of(const Record& record) {
  if (record.at("Platform") == "cuda") return record.at("GPU");
  return fmt::format("{}, {} threads", record.at("CPU"), record.at("Threads"));
}

std::string case_of(const Record& record) {
  return fmt::format("{} {}", record.at("Case"), fmt::join(words_of(record), " "));
}

std::string settings_of(const Record& record) {
  constexpr std::array<std::string_view, 2> kElsewhere{"--shape", "--dtype"};
  std::vector<std::string> words = words_but(words_of(record), kElsewhere);
  // What the environment forced comes before these three.
  const auto octet = std::find(words.begin(), words.end(), "octet");
  words.erase(octet, octet + std::min<std::ptrdiff_t>(3, words.end() - octet));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string problem_of(const Record& record) {
  const std::vector<std::string> words = words_of(record);
  std::vector<std::string> asked;
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
  return fmt::format("{}", fmt::join(asked, " "));
}

}  // namespace octet::tool
